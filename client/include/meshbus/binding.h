#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshbus/address.h"

namespace [[gnu::visibility("default")]] meshbus {

/// What each rank is bound to. Ranks of a host that are next to each other get what is next to each
/// other.
enum class BindTo : std::uint8_t {
  none,  ///< Nothing: the kernel moves the rank between all CPUs that the host may use.
  core,  ///< A core of its own, with all its hardware threads; or `Binding::cores` of them.
  numa,  ///< The CPUs of one NUMA node. The ranks of a host are spread over its nodes.
  gpu,   ///< The CPUs beside one GPU, that of its local rank.
};

/// Where the memory of a bound rank comes from.
enum class BindMemory : std::uint8_t {
  prefer,  ///< The NUMA node of its CPUs, and others when that one is full.
  only,    ///< The NUMA nodes of its CPUs alone: the kernel kills a rank that needs more.
  any,     ///< As the kernel has it: mostly the node where the rank first uses it.
};

/// Where the ranks of a mesh run (docs/guide/binding.md). Each host decides it from what it may use
/// itself: its cgroup and its CPU affinity count, and ProcSettings::cpus. With more ranks than
/// cores, nodes or GPUs, ranks next to each other share one. A rank that is restarted is bound as
/// before. Not with ProcSpec::is_template, nor with procs_per_process above 1.
struct Binding {
  BindTo to = BindTo::none;                ///< What each rank is bound to.
  std::uint32_t cores = 1;                 ///< How many each rank gets, with BindTo::core.
  BindMemory memory = BindMemory::prefer;  ///< Where its memory comes from; not with BindTo::none.
  /// Each rank sees one GPU, that of its local rank: CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and
  /// ZE_AFFINITY_MASK name it. Where such a variable is set already, of the GPUs in it.
  bool visible_devices = false;

  /// Whether there is anything to do.
  bool is_wanted() const noexcept { return to != BindTo::none || visible_devices; }
  friend bool operator==(const Binding&, const Binding&) = default;
};

/// How one rank is bound.
struct RankBinding {
  std::uint64_t rank = 0;                        ///< Which one.
  std::vector<std::uint32_t> cpus = {};          ///< Ascending; empty: any.
  std::vector<std::uint32_t> memory_nodes = {};  ///< The NUMA nodes of these CPUs.
  BindMemory memory = BindMemory::any;           ///< What was told the kernel; any: nothing.
  std::string gpu = {};                          ///< PCI address; empty: none was chosen.
  std::string visible_devices = {};              ///< CUDA_VISIBLE_DEVICES; empty: not set by us.
};

/// What a host said about the ranks that it bound: what is shared, and what it may not use.
struct BindingNote {
  HostAddr host;     ///< Which one.
  std::string text;  ///< "2 cores for 4 ranks: ..."
};

/// How the ranks of a mesh are bound.
struct BindingMap {
  std::vector<RankBinding> ranks = {};  ///< By rank; empty: the spawn asked for no binding.
  std::vector<BindingNote> notes = {};  ///< By host.
};

}  // namespace meshbus
