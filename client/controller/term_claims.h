#pragma once

#include <set>

#include "client/controller/former_owners.h"
#include "meshbus/address.h"

namespace meshbus {

/// What hosts have answered when a controller of a pair claimed its present term, as far as it says
/// whose word of owners counts (docs/decisions/0066-what-a-silent-host-said-before-a-term.md).
/// Pure.
class TermClaims {
 public:
  void begin() { has_term_ = true; }
  /// The term is over. Hosts that are silent are still.
  void end() {
    has_term_ = false;
    former_.clear();
    claimed_.clear();
  }
  /// A controller of the same pair has acted before us. False: it was known.
  bool add_former(const PairFormer& former) { return former_.add(former); }
  /// What the host has said may be from before our term, until it has answered our claim.
  void on_silent(const HostAddr& host) { past_.insert(host); }
  /// It answers again, and has yet to hear our claim, if we have a term.
  void on_back(const HostAddr& host) {
    if (!has_term_) past_.erase(host);
  }
  /// It has answered our claim: what it says of owners counts as it is. Returns whether that is
  /// new.
  bool on_answer(const HostAddr& host) {
    const bool is_first = claimed_.insert(host).second;
    return past_.erase(host) != 0 || is_first;
  }

  bool is_claimed(const HostAddr& host) const { return claimed_.contains(host); }
  /// Whether the host says so from before our term, of an owner that can do nothing any more.
  bool is_past(const HostAddr& host, const OwnerUpdate& owner) const {
    return past_.contains(host) && former_.contains(owner);
  }

 private:
  bool has_term_ = false;
  FormerOwners former_;
  /// Hosts that have answered our claim of this term.
  std::set<HostAddr> claimed_;
  /// Hosts that have fallen silent, and have not answered a claim of ours since.
  std::set<HostAddr> past_;
};

}  // namespace meshbus
