#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "client/controller/host_update.h"
#include "meshbus/address.h"

namespace meshbus {

/// The owner of one mesh, as each of its hosts says. Pure.
class OwnershipBook {
 public:
  void take(const HostAddr& host, const OwnerUpdate& owner) { owners_[host] = owner; }

  /// As each host says that has said anything.
  const std::map<HostAddr, OwnerUpdate>& all() const noexcept { return owners_; }
  /// As the first host says that does; null: none has said.
  const OwnerUpdate* first() const { return owners_.empty() ? nullptr : &owners_.begin()->second; }
  /// Whether one of these names answers for it: some of its hosts say so, and none says anything
  /// else. A mesh that was handed over on some of its hosts only still belongs to its old owner.
  /// `is_past`: what a host says counts no more, as it names an owner that can do nothing.
  template <typename IsPast>
  bool is_owned_by(const std::set<std::string>& names, IsPast is_past) const {
    return names_any_of(names) &&
           std::all_of(owners_.begin(), owners_.end(), [&](const auto& entry) {
             const auto& [host, owner] = entry;
             if (owner.is_gone) return false;
             return names.contains(owner.owner) || is_past(host, owner);
           });
  }
  /// Whether one of these is named by a host of which that is true.
  template <typename IsMeant>
  bool is_named_on(const std::set<std::string>& names, IsMeant is_meant) const {
    return std::any_of(owners_.begin(), owners_.end(), [&](const auto& entry) {
      const auto& [host, owner] = entry;
      return !owner.is_gone && names.contains(owner.owner) && is_meant(host);
    });
  }
  /// Whether that host names one of these, and not `present`, the last of them.
  bool is_former_on(const HostAddr& host, const std::set<std::string>& names,
                    const std::string& present) const {
    const auto found = owners_.find(host);
    return found != owners_.end() && !found->second.is_gone && found->second.owner != present &&
           names.contains(found->second.owner);
  }
  /// Whether some host says that one of these names answers for it.
  bool names_any_of(const std::set<std::string>& names) const { return first_of(names) != nullptr; }
  /// As the first host says that names one of these; null: none does.
  const OwnerUpdate* first_of(const std::set<std::string>& names) const {
    const auto found = std::find_if(owners_.begin(), owners_.end(), [&](const auto& entry) {
      return !entry.second.is_gone && names.contains(entry.second.owner);
    });
    return found == owners_.end() ? nullptr : &found->second;
  }
  /// Whether some host says that nobody answers for it any more.
  bool is_abandoned() const {
    return std::any_of(owners_.begin(), owners_.end(),
                       [](const auto& entry) { return entry.second.is_gone; });
  }
  /// Whether its owner may restart ranks there.
  bool may_restart_on(const HostAddr& host) const {
    const auto found = owners_.find(host);
    return found != owners_.end() && found->second.may_restart;
  }
  /// The restart policy that its owners have left at the hosts, with all that was used of it.
  std::optional<RestartPlan> restarts() const {
    std::optional<RestartPlan> plan;
    for (const auto& [host, owner] : owners_) {
      if (!owner.restarts) continue;
      if (plan) {
        merge_into(*plan, *owner.restarts);
      } else {
        plan = owner.restarts;
      }
    }
    return plan;
  }
  /// Ranks there that somebody has stopped, as that host says.
  RankSet stopped_on(const HostAddr& host) const {
    const auto found = owners_.find(host);
    return found == owners_.end() ? RankSet() : found->second.stopped;
  }
  /// As that host says; 0 = none.
  std::chrono::milliseconds lease_on(const HostAddr& host) const {
    const auto found = owners_.find(host);
    return found == owners_.end() ? std::chrono::milliseconds(0) : found->second.lease;
  }

 private:
  std::map<HostAddr, OwnerUpdate> owners_;
};

}  // namespace meshbus
