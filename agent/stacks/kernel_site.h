#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace meshbus::stacks {

/// Where a thread is in the kernel, by /proc alone: the thread is not disturbed.
struct KernelSite {
  char state = '?';      ///< As in /proc: R runs, S sleeps, D waits for a device, T is stopped.
  std::string function;  ///< Where it waits: "futex_wait_queue". Empty: unknown.
  std::string call;      ///< "read(pipe)", "futex". Empty: none, or unknown.
  long number = -1;      ///< The system call; -1: none, or unknown.
  std::uint64_t first_argument = 0;
  std::uint64_t cpu_ms = 0;  ///< CPU time that it has used.
};

KernelSite find_kernel_site(pid_t pid, pid_t tid);

/// "read"; empty: not one that is known to wait.
std::string system_call_name(long number);

}  // namespace meshbus::stacks
