#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "agent/host/model/environment.h"
#include "agent/host/model/rank_binding.h"
#include "agent/topology/topology.h"
#include "meshbus/result.h"

namespace meshbus::host {

/// The ranks that a host binds at once, by their place among those of the mesh on this machine:
/// `first` to `first + count - 1` of `total`.
struct LocalRanks {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t total = 0;
};

/// Which GPUs the environment leaves visible.
struct VisibleGpus {
  std::string variable = {};              ///< Empty: all of them.
  std::vector<std::string> entries = {};  ///< Numbers, mostly.
  /// The runtime numbers those that are left anew (ROCR_VISIBLE_DEVICES).
  bool is_renumbered = false;

  /// From CUDA_VISIBLE_DEVICES and its like.
  static VisibleGpus find(const Environment& environment);
};

/// What other bound ranks of this host use.
struct TakenPlaces {
  std::set<std::uint32_t> cpus = {};
  std::set<std::string> gpus = {};
};

struct BindingInput {
  BindingRequest request = {};
  LocalRanks ranks = {};
  std::vector<std::uint32_t> cpu_set = {};  ///< ProcSettings::cpus; empty: all.
  VisibleGpus visible = {};
  TakenPlaces taken = {};
};

struct BindingPlan {
  std::vector<RankBinding> ranks = {};  ///< From LocalRanks::first on.
  /// What people should know: what the host may use, and what is shared.
  std::vector<std::string> notes = {};
};

/// Decides where ranks run (docs/guide/binding.md). Pure. Errors: refused, in words, when the host
/// has not what the request is about.
Result<BindingPlan> plan_binding(const topology::Topology& topology, const BindingInput& input);

/// The variables that show a rank its GPU alone: CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES,
/// ZE_AFFINITY_MASK. Empty when the binding says none.
Environment gpu_variables(const RankBinding& binding);

}  // namespace meshbus::host
