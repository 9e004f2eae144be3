#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "agent/hands/capabilities.h"

namespace meshbus::hands {

/// What /proc/PID/status says of the user of a process, and of what it may do.
struct ProcessUser {
  // Real, effective, saved and of the file system.
  std::array<uid_t, 4> users{};
  std::array<gid_t, 4> user_groups{};
  std::vector<gid_t> groups;
  mode_t umask = 022;
  bool has_no_new_privs = false;
  Capabilities capabilities;
  bool is_filtered = false;   ///< Seccomp, in any mode.
  std::uint32_t filters = 0;  ///< Older kernels do not say how many.

  /// False: it runs a program with the rights of another user, or goes between two.
  bool has_one_user() const noexcept;
  bool operator==(const ProcessUser&) const = default;
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

/// Whether /proc/PID/auxv says that the program got more rights when it was executed than its
/// caller had (AT_SECURE): setuid, setgid, capabilities of the file. Pure.
bool is_secure_execution(std::string_view auxv);

/// Field 22 of /proc/PID/stat, its start in ticks after boot. Nothing: this is no such text. Pure.
std::optional<std::uint64_t> parse_start_ticks(std::string_view text);

}  // namespace meshbus::hands
