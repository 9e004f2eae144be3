#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace meshbus::os {

/// One line of the kernel's process table: what /proc/PID/stat says.
struct ProcessEntry {
  pid_t pid = 0;
  char state = '?';  ///< 'Z': dead, not reaped (with more than one thread: its main thread is gone,
                     ///< the others live).
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  /// CPU time in user and kernel mode; sysconf(_SC_CLK_TCK) of them are a second.
  long cpu_ticks = 0;
  long threads = 0;
};

/// Parses the text of a stat file; nothing when it is not one. The command name may contain
/// anything, brackets and newlines included.
std::optional<ProcessEntry> parse_stat(std::string_view text);

/// Reads /proc/PID/stat; nothing when the process is gone.
std::optional<ProcessEntry> read_process(pid_t pid);

/// All process ids in ascending order, as far as /proc shows them.
std::vector<pid_t> list_pids();

/// Our own children, dead ones included, from /proc/thread-self/children; nothing where the kernel
/// has no such file. One-threaded callers get a complete answer, because no other thread reaps.
std::optional<std::vector<pid_t>> list_children();

/// Alive: there, and not a zombie that has lost its last thread.
bool is_alive(pid_t pid);

}  // namespace meshbus::os
