// The process tag: a hard limit that means nothing, is inherited by everything and survives every
// exec.
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

#include "agent/os/process_table.h"
#include "agent/os/sweep.h"
#include "common/base/unique_fd.h"

namespace meshbus::os {

namespace {

constexpr std::uint64_t kTagBase = std::uint64_t{1} << 62;
constexpr int kQuietPasses = 3;

}  // namespace

std::uint64_t make_process_tag() {
  rlimit own{};
  if (::getrlimit(RLIMIT_RTTIME, &own) != 0 || own.rlim_max != RLIM_INFINITY) return 0;
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != static_cast<ssize_t>(sizeof random)) return 0;
  return kTagBase + (random & (kTagBase - 1));
}

std::size_t kill_tagged(std::uint64_t process_tag) {
  std::size_t found = 0;
  // Anything else is no tag; RLIM_INFINITY, say, is what untagged processes have.
  if (process_tag < kTagBase || process_tag >= 2 * kTagBase) return found;
  const pid_t self = ::getpid();
  for (const pid_t pid : list_pids()) {
    rlimit limit{};
    if (pid == self || ::prlimit(pid, RLIMIT_RTTIME, nullptr, &limit) != 0 ||
        limit.rlim_max != process_tag)
      continue;
    // Held by a descriptor and looked at again: the pid alone may belong to another process by now.
    const UniqueFd held(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!held || ::prlimit(pid, RLIMIT_RTTIME, nullptr, &limit) != 0 ||
        limit.rlim_max != process_tag)
      continue;
    // A zombie keeps its limits until it is reaped, which is not up to us.
    if (!is_alive(pid)) continue;
    ++found;
    ::syscall(SYS_pidfd_send_signal, held.get(), SIGKILL, nullptr, 0);
  }
  return found;
}

bool sweep_tagged(std::uint64_t process_tag, std::chrono::milliseconds deadline) {
  const auto until = std::chrono::steady_clock::now() + deadline;
  for (int quiet = 0; quiet < kQuietPasses;) {
    quiet = kill_tagged(process_tag) == 0 ? quiet + 1 : 0;
    if (std::chrono::steady_clock::now() >= until) return quiet != 0;
    const timespec pause{0, 1'000'000};
    ::nanosleep(&pause, nullptr);
  }
  return true;
}

}  // namespace meshbus::os
