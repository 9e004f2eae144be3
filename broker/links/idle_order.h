#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>

namespace meshbus {

/// Keys in the order in which they became idle. Every function takes the same time, however many
/// there are. Pure.
class IdleOrder {
 public:
  /// Puts it last.
  void add(std::uint64_t key) {
    remove(key);
    order_.push_back(key);
    places_.emplace(key, std::prev(order_.end()));
  }
  void remove(std::uint64_t key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return;
    order_.erase(found->second);
    places_.erase(found);
  }
  /// Takes out the one that has been idle longest; nothing when there is none.
  std::optional<std::uint64_t> take_oldest() {
    if (order_.empty()) return std::nullopt;
    const std::uint64_t key = order_.front();
    remove(key);
    return key;
  }
  std::size_t size() const noexcept { return places_.size(); }

 private:
  std::list<std::uint64_t> order_;
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> places_;
};

}  // namespace meshbus
