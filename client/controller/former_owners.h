#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "client/controller/host_update.h"

namespace meshbus {

/// A controller that has acted before another one of its pair, as a host says. A plain value.
struct PairFormer {
  std::string name;  ///< A ProcId.
  std::uint64_t incarnation = 0;
};

/// Controllers of the same pair that have acted before this one, as hosts say that have granted it
/// the present term. None of them can act any more. Pure.
class FormerOwners {
 public:
  /// Each host remembers 16 of a pair at most.
  static constexpr std::size_t kMost = 256;

  /// Returns whether that is new.
  bool add(const PairFormer& former) {
    if (!by_name_.contains(former.name) && by_name_.size() >= kMost) return false;
    auto& incarnations = by_name_[former.name];
    return incarnations.size() < kMost && incarnations.insert(former.incarnation).second;
  }
  void clear() noexcept { by_name_.clear(); }

  /// Whether a host names one of these. Another controller may have the same name by now, but not
  /// the incarnation; when the host does not know that, the name counts, as it does at the host
  /// (PairTerm::is_former() in agent/host/ownership/pair_terms.h).
  bool contains(const OwnerUpdate& owner) const {
    const auto found = by_name_.find(owner.owner);
    if (owner.is_gone || found == by_name_.end()) return false;
    return owner.incarnation == 0 || found->second.contains(owner.incarnation);
  }

 private:
  std::map<std::string, std::set<std::uint64_t>> by_name_;
};

}  // namespace meshbus
