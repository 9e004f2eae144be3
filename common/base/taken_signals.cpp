#include "common/base/taken_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace meshbus {

TakenSignals::TakenSignals(std::initializer_list<int> signals) {
  sigemptyset(&all_);
  for (const int one : signals) sigaddset(&all_, one);
  ::sigprocmask(SIG_BLOCK, &all_, nullptr);
  fd_.reset(::signalfd(-1, &all_, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_) throw std::system_error(errno, std::generic_category(), "signalfd");
}

std::optional<int> TakenSignals::next() {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info))
    return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

void TakenSignals::release() {
  ::sigprocmask(SIG_UNBLOCK, &all_, nullptr);
}

}  // namespace meshbus
