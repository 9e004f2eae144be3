#include "agent/warden/own_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>

#include "agent/os/process_table.h"
#include "agent/os/sweep.h"
#include "agent/warden/exit_codes.h"
#include "common/base/os_error.h"

namespace meshbus::warden {
namespace {

std::set<pid_t> find_own_children() {
  if (const auto children = os::list_children()) return {children->begin(), children->end()};
  std::set<pid_t> found;
  for (const pid_t pid : os::list_pids()) {
    const auto entry = os::read_process(pid);
    if (entry && entry->parent == ::getpid()) found.insert(pid);
  }
  return found;
}

}  // namespace

Started OwnProcess::prepare(int ready_fd, int lifeline_fd) {
  const auto failed = [](std::string why) {
    return tl::unexpected(StartFailure{kExitOsError, std::move(why)});
  };
  earlier_children_ = find_own_children();
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
    return failed(os_error("prctl(PR_SET_CHILD_SUBREAPER)"));
  ::signal(SIGPIPE, SIG_IGN);  // the reader of our output may end before us
  struct sigaction by_default{};
  by_default.sa_handler = SIG_DFL;
  by_default.sa_flags = SA_NOCLDSTOP;
  ::sigaction(SIGCHLD, &by_default, nullptr);  // not ignored: the kernel would reap for us
  sigset_t handled;
  sigemptyset(&handled);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&handled, signal);
  if (::sigprocmask(SIG_SETMASK, &handled, nullptr) != 0) return failed(os_error("sigprocmask"));
  signals_ = UniqueFd(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return failed(os_error("signalfd"));
  for (const int fd : {ready_fd, lifeline_fd}) {
    if (fd >= 0 && ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
      return failed("descriptor " + std::to_string(fd) + ": " + std::strerror(errno));
  }
  if (lifeline_fd >= 0 &&
      ::fcntl(lifeline_fd, F_SETFL, ::fcntl(lifeline_fd, F_GETFL) | O_NONBLOCK) != 0)
    return failed(os_error("fcntl of the launcher's lifeline"));
  return {};
}

std::vector<pid_t> OwnProcess::sweep(const std::function<bool(pid_t)>& is_kept) const {
  os::Sweeper sweeper([&](pid_t pid) { return is_kept(pid) || earlier_children_.contains(pid); });
  if (sweeper.run(kSweepLimit)) return {};
  return sweeper.survivors();
}

}  // namespace meshbus::warden
