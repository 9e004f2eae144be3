#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshbus::test {

/// One line of /proc.
struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  char state = '?';  ///< As ps shows it: R, S, D, T, Z, ...
  int threads =
      0;  ///< Living ones; the first thread of a process may be dead (Z) while others live.
  std::string name;     ///< The kernel's short name.
  std::string command;  ///< Arguments joined by spaces, or "[name]" when there are none.

  /// Dead, only not yet waited for.
  bool is_dead() const { return (state == 'Z' || state == 'X') && threads <= 1; }
  /// "1234 (S, parent 1): sleep 100"
  std::string to_string() const;
};

/// Nothing when there is no such process.
std::optional<ProcessInfo> find_process(pid_t pid);
/// Everything that runs on this machine (in this pid namespace), by ascending pid.
std::vector<ProcessInfo> all_processes();
/// The children of a process, dead ones included.
std::vector<ProcessInfo> children_of(pid_t parent);
/// All that descend from a process and are alive, at one look. What forks meanwhile may be missed:
/// wait until this is empty, twice.
std::vector<ProcessInfo> descendants_of(pid_t ancestor);
/// Live processes whose arguments contain a text, other than this one. Give the processes under
/// test an argument that nobody else has.
std::vector<ProcessInfo> processes_with(std::string_view text);
/// Those of them that have the TMPDIR of this test program in their environment: other test
/// programs run beside it.
std::vector<ProcessInfo> own_processes_with(std::string_view text);

/// Whether a process is gone: there is no such pid, or it is a zombie without living threads (its
/// parent may reap it late).
bool is_gone(pid_t pid);

/// Lines for a failure message.
std::string to_string(const std::vector<ProcessInfo>& processes);

}  // namespace meshbus::test
