#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "meshbus/restart_policy.h"
#include "wire/forward.h"

namespace meshbus {

/// The restarts that were used by one rank (Gang::one), or by a mesh, with `rank` 0.
struct RestartUsage {
  using Time = std::chrono::steady_clock::time_point;
  std::uint64_t rank = 0;
  std::uint64_t all = 0;
  /// Since an incarnation last ran for longer than the longest delay.
  unsigned in_a_row = 0;
  /// Those that count against the budget, oldest first. Only with a budget.
  std::vector<Time> spent = {};
};

/// A restart policy and what was used of its budget: what goes with a mesh from owner to owner, by
/// way of its hosts (docs/decisions/0051-restarts-go-with-the-mesh.md).
struct RestartPlan {
  RestartPolicy policy = {};
  std::vector<RestartUsage> used = {};
  /// By rank: the incarnation that it was last ordered to begin, by the number of restarts before
  /// it. Only with a gang: what its gang has left behind is told apart by it.
  std::map<std::uint64_t, std::uint64_t> begun = {};
  /// No rank is restarted any more.
  bool is_over = false;
};

/// Two readings of clocks at the same moment: the hosts keep times in real time.
struct ClockPair {
  std::chrono::steady_clock::time_point steady;
  std::chrono::system_clock::time_point real;
  static ClockPair now() {
    return {std::chrono::steady_clock::now(), std::chrono::system_clock::now()};
  }
};

wire::RestartPlanT to_wire(const RestartPlan& plan, const ClockPair& now);
/// What this release does not know of a policy restarts nothing.
RestartPlan from_wire(const wire::RestartPlan& plan, const ClockPair& now);

/// The part of it that concerns a host which has the ranks of `is_there`. The accounts of a gang
/// are those of the mesh, and every host keeps them.
RestartPlan part_of(const RestartPlan& plan,
                    const std::function<bool(std::uint64_t rank)>& is_there);

/// Adds what another host of the same mesh keeps: of two accounts the one that has used more
/// counts.
void merge_into(RestartPlan& plan, const RestartPlan& other);

}  // namespace meshbus
