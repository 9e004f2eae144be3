#pragma once

#include <cstddef>
#include <deque>
#include <unordered_map>

namespace meshbus {

/// The last `limit` different keys that were put in, with a value each: a memory that cannot grow.
template <typename Key, typename Value, typename Hash = std::hash<Key>>
class RecentSet {
 public:
  explicit RecentSet(std::size_t limit) : limit_(limit) {}

  /// Adds the key or replaces its value; the oldest key is forgotten when there are too many.
  void add(const Key& key, Value value) {
    const auto [at, is_new] = entries_.insert_or_assign(key, std::move(value));
    if (is_new) order_.push_back(key);
    // order_ may still name keys that were erased; they count here, so that it is bounded too.
    while (order_.size() > limit_) {
      entries_.erase(order_.front());
      order_.pop_front();
    }
  }
  void erase(const Key& key) { entries_.erase(key); }
  const Value* find(const Key& key) const {
    const auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : &found->second;
  }
  bool contains(const Key& key) const { return entries_.contains(key); }
  std::size_t size() const noexcept { return entries_.size(); }

 private:
  std::size_t limit_;
  std::unordered_map<Key, Value, Hash> entries_;
  std::deque<Key> order_;
};

}  // namespace meshbus
