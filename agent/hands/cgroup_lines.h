#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshbus::hands {

/// One hierarchy of cgroups that a process is in: a line of /proc/PID/cgroup.
struct CgroupLine {
  /// "cpu,cpuacct", "name=systemd"; empty: cgroup v2.
  std::string controllers;
  std::string path;

  bool is_v2() const noexcept { return controllers.empty(); }
};

/// Lines that are none are left out. Pure.
std::vector<CgroupLine> parse_cgroups(std::string_view text);

/// The directory of that cgroup, from the text of /proc/self/mountinfo. Nothing: its hierarchy is
/// not mounted here, or the mount does not show that part of it. Pure.
std::optional<std::string> find_cgroup_directory(std::string_view mounts, const CgroupLine& cgroup);

}  // namespace meshbus::hands
