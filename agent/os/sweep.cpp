#include "agent/os/sweep.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <utility>

#include "agent/os/process_table.h"

namespace meshbus::os {

namespace {

constexpr std::uint64_t kFullPassEvery = 8;
constexpr std::chrono::microseconds kPause{200};

// The system call, because the libc wrapper has no rusage.
long wait_child(idtype_t type, pid_t pid, siginfo_t& info, rusage& usage) {
  info = {};
  return ::syscall(SYS_waitid, type, pid, &info, WEXITED | WNOHANG | __WALL, &usage);
}

bool contains(const std::vector<pid_t>& sorted, pid_t pid) {
  return std::binary_search(sorted.begin(), sorted.end(), pid);
}

}  // namespace

Sweeper::Sweeper(Keep keep, OnReaped on_reaped, Source source)
    : keep_(std::move(keep)),
      on_reaped_(std::move(on_reaped)),
      source_(source),
      self_(::getpid()),
      session_(::getsid(0)) {}

std::optional<std::vector<pid_t>> Sweeper::children() const {
  if (source_ == Source::table) return std::nullopt;
  return list_children();
}

Sweeper::Round Sweeper::round() {
  Round result;
  const auto listed = children();
  if (listed) result.found = kill_children(*listed);
  // Children alone can be outrun by a chain of forks whose links exit; the whole table cannot.
  if (listed && result.found == 0) {
    // What was seen in an earlier chase has no meaning in the next one: numbers are given out
    // again.
    rounds_ = 0;
    seen_last_pass_.clear();
  } else if (!listed || ++rounds_ % kFullPassEvery == 0) {
    result.found = std::max(result.found, scan_process_table());
  }
  if (!keep_) {
    result.clean = reap_all(result.reaped);
    return result;
  }
  if (listed) {
    for (const pid_t pid : *listed) {
      if (!keep_(pid) && reap_one(pid)) ++result.reaped;
    }
  } else {
    for (const pid_t pid : survivors()) {
      if (reap_one(pid)) ++result.reaped;
    }
  }
  result.clean = result.found == 0;
  if (result.clean) seen_last_pass_.clear();
  return result;
}

bool Sweeper::run(std::chrono::milliseconds deadline) {
  const auto until = std::chrono::steady_clock::now() + deadline;
  sigset_t child_signal;
  sigemptyset(&child_signal);
  sigaddset(&child_signal, SIGCHLD);
  for (;;) {
    const Round done = round();
    if (done.clean) return true;
    if (std::chrono::steady_clock::now() >= until) return false;
    if (done.reaped != 0) continue;
    const timespec wait{0, std::chrono::nanoseconds(kPause).count()};
    ::sigtimedwait(&child_signal, nullptr, &wait);
  }
}

std::vector<pid_t> Sweeper::survivors() const {
  std::vector<pid_t> left;
  if (auto listed = children()) {
    left = std::move(*listed);
  } else {
    for (const pid_t pid : list_pids()) {
      const auto entry = read_process(pid);
      if (entry && entry->parent == self_) left.push_back(pid);
    }
  }
  if (keep_) std::erase_if(left, keep_);
  return left;
}

std::size_t Sweeper::kill_children(const std::vector<pid_t>& children) {
  std::size_t found = 0;
  for (const pid_t pid : children) {
    if (keep_ && keep_(pid)) continue;
    ++found;
    ::kill(pid, SIGKILL);  // ours and not reaped: the number is not anybody else's
  }
  return found;
}

// One look at each process in ascending order, killing at once: a child usually has a higher number
// than its parent, and where the numbers wrapped round the parents of the last pass help.
std::size_t Sweeper::scan_process_table() {
  std::vector<pid_t> seen;
  std::size_t found = 0;
  for (const pid_t pid : list_pids()) {
    const auto entry = read_process(pid);
    if (!entry || pid == self_) continue;
    const bool is_child = entry->parent == self_;
    if (is_child && keep_ && keep_(pid)) continue;
    if (!is_child && !contains(seen, entry->parent) && !contains(seen_last_pass_, entry->parent))
      continue;
    ++found;
    seen.push_back(pid);
    ::kill(pid, SIGKILL);
    // A session that is not ours was opened by a descendant: all processes in its groups are
    // descendants.
    if (entry->session != session_ && entry->group > 1 && !(keep_ && keep_(entry->group)))
      ::kill(-entry->group, SIGKILL);
  }
  seen_last_pass_ = std::move(seen);
  return found;
}

bool Sweeper::reap_all(std::size_t& reaped) {
  for (;;) {
    siginfo_t info;
    rusage usage{};
    if (wait_child(P_ALL, 0, info, usage) != 0) {
      if (errno == EINTR) continue;
      return errno == ECHILD;
    }
    if (info.si_pid == 0) return false;
    ++reaped;
    if (on_reaped_) on_reaped_(info, usage);
  }
}

bool Sweeper::reap_one(pid_t pid) {
  siginfo_t info;
  rusage usage{};
  while (wait_child(P_PID, pid, info, usage) != 0) {
    if (errno != EINTR) return false;
  }
  if (info.si_pid == 0) return false;
  if (on_reaped_) on_reaped_(info, usage);
  return true;
}

}  // namespace meshbus::os
