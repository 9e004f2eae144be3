#include "agent/topology/cpu_quota.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "agent/os/cgroup.h"

namespace meshbus::topology {
namespace {

namespace fs = std::filesystem;

/// 0 = no limit.
std::uint64_t milli_of(std::int64_t quota_us, std::int64_t period_us) {
  return quota_us > 0 && period_us > 0
             ? static_cast<std::uint64_t>(quota_us) * 1000 / static_cast<std::uint64_t>(period_us)
             : 0;
}

/// Nothing: this is no cgroup with such a file.
std::optional<std::uint64_t> quota_of(const fs::path& cgroup) {
  std::int64_t quota = 0;
  std::int64_t period = 0;
  if (std::ifstream file(cgroup / "cpu.max"); file) {
    // "max 100000" is no number.
    return file >> quota >> period ? milli_of(quota, period) : 0;
  }
  std::ifstream quota_file(cgroup / "cpu.cfs_quota_us");
  std::ifstream period_file(cgroup / "cpu.cfs_period_us");
  if (!(quota_file >> quota) || !(period_file >> period)) return std::nullopt;
  return milli_of(quota, period);
}

/// The least of a cgroup and those above it, up to `top`.
std::uint64_t least_quota(fs::path cgroup, const fs::path& top) {
  std::uint64_t least = 0;
  for (;; cgroup = cgroup.parent_path()) {
    const auto quota = quota_of(cgroup);
    if (quota && *quota != 0) least = least == 0 ? *quota : std::min(least, *quota);
    if (cgroup == top || cgroup == cgroup.parent_path()) return least;
  }
}

}  // namespace

std::uint64_t find_cpu_quota() {
  if (const auto v1 = os::find_v1_cgroup("cpu")) return least_quota(*v1, "/");
  const auto own = os::find_own_cgroup();
  return own ? least_quota(own->path, own->top) : 0;
}

}  // namespace meshbus::topology
