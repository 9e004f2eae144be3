#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What not every machine has. A test case that cannot do without it says so by its suite, as in `*
/// doctest::test_suite(need::core_file)`: where it cannot be had, main() leaves that suite out, so
/// that it is counted as skipped, and says why. (No name has a comma: doctest would take it for
/// two.)
namespace meshbus::test {

namespace need {
inline constexpr char core_file[] = "needs core files in the working directory";
inline constexpr char pid_namespace[] = "needs a pid namespace";
inline constexpr char cgroup2[] = "needs root and the controllers in cgroup v2";
inline constexpr char own_cgroup[] = "needs a cgroup v2 of its own";
inline constexpr char v1_memory[] = "needs a memory cgroup v1 of its own";
inline constexpr char read_only_cgroups[] =
    "needs a mount namespace in which the cgroups are read-only";
inline constexpr char memory_limit[] = "needs limits of memory";
inline constexpr char pids_limit[] = "needs limits of processes";
inline constexpr char cpu_limit[] = "needs limits of CPU time";
inline constexpr char all_limits[] = "needs limits of memory and processes and CPU time";
inline constexpr char ipv6[] = "needs IPv6";
inline constexpr char real_time[] = "needs two CPUs and leave to hold one of them";
inline constexpr char mpich[] = "needs MPICH and its compiler";
inline constexpr char open_mpi[] = "needs Open MPI and its compiler and meshbus-mpi-pmix";
inline constexpr char mpi4py[] = "needs mpi4py and meshbus-mpi-pmix";
inline constexpr char torch[] = "needs PyTorch";
inline constexpr char stacks[] = "needs meshbus-stacks and leave to trace";
inline constexpr char hwloc[] = "needs meshbus-topology";
inline constexpr char two_cpus[] = "needs meshbus-topology and CPUs 0 and 1";
inline constexpr char promtool[] = "needs promtool";
inline constexpr char chromedriver[] = "needs Chromium and its driver";
inline constexpr char root[] = "needs root";
}  // namespace need

/// For a shell in a mount namespace of its own.
inline constexpr char make_cgroups_read_only[] =
    "for d in $(awk '$3 ~ /^cgroup/ {print $2}' /proc/mounts); do mount -o remount,bind,ro $d || "
    "exit 9; done";

/// Those that are not met here, each with the reason in words. Call it when there is an
/// Environment.
std::vector<std::pair<std::string, std::string>> unmet_needs();
/// For a part of a test case.
bool is_met(std::string_view need);
/// The containments that can be had here, for tests that try them all: "auto", "sweep" and, where
/// there are pid namespaces, "pidns".
std::vector<std::string> containments();

/// A number by which tests/soak makes a test longer.
inline std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace meshbus::test
