#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace meshbus::stacks {

/// /proc/PID/NAME, whole. Empty when it cannot be read.
std::string read_proc_file(pid_t pid, std::string_view name);
/// The same, without a newline at its end.
std::string read_proc_word(pid_t pid, std::string_view name);
/// Where the link /proc/PID/NAME leads. Empty when it cannot be read.
std::string read_proc_link(pid_t pid, std::string_view name);

/// The threads of a process, the first one first.
std::vector<pid_t> threads_of(pid_t pid);
/// The processes that it has started and that live.
std::vector<pid_t> children_of(pid_t pid);

}  // namespace meshbus::stacks
