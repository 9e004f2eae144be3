#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace meshbus::hands {

/// What /proc/PID/status says of the user of a process.
struct ProcessUser {
  // Real, effective and saved.
  std::array<uid_t, 3> users{};
  std::array<gid_t, 3> user_groups{};
  std::vector<gid_t> groups;
  mode_t umask = 022;
  bool has_no_new_privs = false;
};
/// Nothing: this is no such text. Pure.
std::optional<ProcessUser> parse_status(std::string_view text);

/// A line of /proc/PID/limits.
struct ProcessLimit {
  int resource = 0;  ///< RLIMIT_*
  std::uint64_t soft = 0;
  std::uint64_t hard = 0;
};
/// Lines of limits that are not known are left out. Pure.
std::vector<ProcessLimit> parse_limits(std::string_view text);

/// Field 22 of /proc/PID/stat, its start in ticks after boot. Nothing: this is no such text. Pure.
std::optional<std::uint64_t> parse_start_ticks(std::string_view text);

}  // namespace meshbus::hands
