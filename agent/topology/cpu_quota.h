#pragma once

#include <cstdint>

namespace meshbus::topology {

/// The CPU time that the cgroups above this process give in a second, in thousandths of a CPU; 0 =
/// no limit.
std::uint64_t find_cpu_quota();

}  // namespace meshbus::topology
