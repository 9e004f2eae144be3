#include "agent/proc/runtime/stop_signals.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <system_error>

namespace meshbus::mesh_proc {
namespace {

// What the handler needs; all of it may be used inside a signal handler.
std::atomic<int> event_fd{-1};
std::atomic<int> first_signal{0};
std::atomic<pid_t> owner{0};
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<pid_t>::is_always_lock_free);

void on_signal(int number) {
  const int saved_errno = errno;
  if (::getpid() != owner.load()) {
    // A child of fork() that has not executed anything: the descriptor is shared with the proc,
    // which nobody wants to stop.
    std::signal(number, SIG_DFL);
    std::raise(number);  // delivered when this handler returns
  } else {
    int none = 0;
    first_signal.compare_exchange_strong(none, number);
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(event_fd.load(), &one, sizeof one);
  }
  errno = saved_errno;
}

}  // namespace

StopSignals::StopSignals() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) throw std::system_error(errno, std::generic_category(), "eventfd");
  event_fd = event_.get();
  owner = ::getpid();
  for (const int number : {SIGTERM, SIGINT}) {
    struct sigaction now{};
    if (::sigaction(number, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0 ||
        now.sa_handler != SIG_DFL)
      continue;
    struct sigaction ours{};
    ours.sa_handler = on_signal;
    ours.sa_flags =
        SA_RESTART;  // the program is told by stop_requested(), not by failing system calls
    ::sigaction(number, &ours, nullptr);
  }
}

std::optional<int> StopSignals::take() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto n = ::read(event_.get(), &count, sizeof count);
  const int number = first_signal.exchange(0);
  if (number == 0) return std::nullopt;
  return number;
}

}  // namespace meshbus::mesh_proc
