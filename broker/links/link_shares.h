#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "broker/links/idle_order.h"

namespace meshbus {

/// The principal whose introduction made each link, so that one with few rights cannot fill the
/// table of links alone. Pure.
class LinkShares {
 public:
  void add(const std::string& principal, std::uint64_t key) {
    owners_.emplace(key, principal);
    Share& share = shares_[principal];
    ++share.count;
    share.idle.add(key);
  }
  void remove(std::uint64_t key) {
    const auto owner = owners_.find(key);
    if (owner == owners_.end()) return;
    const auto share = shares_.find(owner->second);
    share->second.idle.remove(key);
    if (--share->second.count == 0) shares_.erase(share);
    owners_.erase(owner);
  }
  /// A new link is idle.
  void set_idle(std::uint64_t key, bool is_idle) {
    const auto owner = owners_.find(key);
    if (owner == owners_.end()) return;
    IdleOrder& idle = shares_.at(owner->second).idle;
    if (is_idle) {
      idle.add(key);
    } else {
      idle.remove(key);
    }
  }
  /// Links of that principal.
  std::size_t count(const std::string& principal) const {
    const auto found = shares_.find(principal);
    return found == shares_.end() ? 0 : found->second.count;
  }
  /// The link of that principal that has been idle longest; nothing when none is idle.
  std::optional<std::uint64_t> take_oldest(const std::string& principal) {
    const auto found = shares_.find(principal);
    return found == shares_.end() ? std::nullopt : found->second.idle.take_oldest();
  }

 private:
  struct Share {
    std::size_t count = 0;
    IdleOrder idle = {};
  };
  std::unordered_map<std::uint64_t, std::string> owners_;
  std::unordered_map<std::string, Share> shares_;
};

}  // namespace meshbus
