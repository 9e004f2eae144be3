#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "meshbus/result.h"

namespace meshbus::topology {

using Cpus = std::vector<std::uint32_t>;  ///< Numbers of CPUs, ascending.

/// A core: the CPUs that are its hardware threads.
struct Core {
  std::uint32_t package = 0;
  Cpus cpus = {};

  friend bool operator==(const Core&, const Core&) = default;
};

/// A NUMA node. Some have memory and no CPUs, some have CPUs and no memory.
struct Node {
  std::uint32_t number = 0;
  Cpus cpus = {};
  bool has_memory = true;

  friend bool operator==(const Node&, const Node&) = default;
};

struct Gpu {
  std::string address = {};  ///< On the PCI bus: "0000:07:00.0".
  std::string vendor = {};   ///< "nvidia", "amd", "intel".
  Cpus cpus = {};            ///< Those beside it.

  friend bool operator==(const Gpu&, const Gpu&) = default;
};

/// What of a machine its host may use: the cgroup and the CPU affinity of the host count. A plain
/// value.
struct Topology {
  std::uint32_t machine_cpus = 0;  ///< CPUs of the machine that are online.
  /// CPU time that the cgroup gives in a second, in thousandths of a CPU; 0 = no limit.
  std::uint64_t quota_milli = 0;
  std::string memory_problem = {};  ///< Why no memory policy can be set here; empty = it can.
  std::vector<Core> cores = {};     ///< Neighbours are close to each other.
  std::vector<Node> nodes = {};     ///< By number.
  std::vector<Gpu> gpus = {};       ///< By address.

  friend bool operator==(const Topology&, const Topology&) = default;
};

/// As JSON, one line for each core, node and GPU.
std::string to_json(const Topology& topology);
/// Reads that. Errors: malformed_message.
Result<Topology> parse_json(std::string_view text);

}  // namespace meshbus::topology
