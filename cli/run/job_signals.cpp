#include "cli/run/job_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace meshbus::cli {

namespace {

sigset_t job_signals() {
  sigset_t taken;
  sigemptyset(&taken);
  for (const int one : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2})
    sigaddset(&taken, one);
  return taken;
}

}  // namespace

JobSignals::JobSignals() {
  const sigset_t taken = job_signals();
  ::sigprocmask(SIG_BLOCK, &taken, nullptr);
  // A reader of our output that went away is an error of write(); a terminal that is not ours to
  // read is the end of input.
  for (const int one : {SIGPIPE, SIGTTIN, SIGTTOU}) ::signal(one, SIG_IGN);
  fd_.reset(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_) throw std::system_error(errno, std::generic_category(), "signalfd");
}

std::optional<int> JobSignals::next() {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info))
    return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

void JobSignals::release() {
  const sigset_t taken = job_signals();
  // What came after the end of the ranks came too late to change anything.
  while (next()) {
  }
  ::sigprocmask(SIG_UNBLOCK, &taken, nullptr);
}

void JobSignals::stop_self() {
  ::raise(SIGSTOP);
}

}  // namespace meshbus::cli
