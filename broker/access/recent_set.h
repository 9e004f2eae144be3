#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory_resource>
#include <unordered_map>
#include <utility>

namespace meshbus {

/// The last `limit` different keys that were put in, with a value each: a memory that cannot grow.
/// Its entries lie side by side: a few that stay from a time of much work keep few pages.
template <typename Key, typename Value, typename Hash = std::hash<Key>>
class RecentSet {
 public:
  explicit RecentSet(std::size_t limit) : limit_(limit) {}
  RecentSet(const RecentSet&) = delete;
  RecentSet& operator=(const RecentSet&) = delete;

  /// Adds the key or replaces its value; the oldest key is forgotten when there are too many.
  void add(const Key& key, Value value) {
    const auto [at, is_new] = entries_.insert_or_assign(key, std::move(value));
    if (is_new) order_.push_back(key);
    // order_ may still name keys that were erased; they count here, so that it is bounded too.
    while (order_.size() > limit_) forget_first();
  }
  void erase(const Key& key) { entries_.erase(key); }
  void clear() {
    entries_.clear();
    order_.clear();
    old_ = 0;
  }
  /// Forgets the keys that were there at the last call: each is remembered for between once and
  /// twice the time between calls, from when it was first added; adding it again adds no time.
  void forget_older() {
    while (old_ > 0) forget_first();
    old_ = order_.size();
  }
  const Value* find(const Key& key) const {
    const auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : &found->second;
  }
  bool contains(const Key& key) const { return entries_.contains(key); }
  std::size_t size() const noexcept { return entries_.size(); }

 private:
  void forget_first() {
    entries_.erase(order_.front());
    order_.pop_front();
    if (old_ > 0) --old_;
  }

  std::size_t limit_;
  std::pmr::unsynchronized_pool_resource memory_;
  std::pmr::unordered_map<Key, Value, Hash> entries_{&memory_};
  std::pmr::deque<Key> order_{&memory_};
  /// The first keys of order_, that were there at the last call of forget_older().
  std::size_t old_ = 0;
};

}  // namespace meshbus
