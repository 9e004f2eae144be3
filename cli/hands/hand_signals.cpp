#include "cli/hands/hand_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace meshbus::cli {

HandSignals::HandSignals() {
  sigset_t taken;
  sigemptyset(&taken);
  for (const int one : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGWINCH}) sigaddset(&taken, one);
  ::sigprocmask(SIG_BLOCK, &taken, nullptr);
  // A reader that went away is an error of write(); a terminal that is not ours to read is the end
  // of input.
  for (const int one : {SIGPIPE, SIGTTIN, SIGTTOU}) ::signal(one, SIG_IGN);
  fd_.reset(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_) throw std::system_error(errno, std::generic_category(), "signalfd");
}

std::optional<int> HandSignals::next() {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info))
    return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace meshbus::cli
