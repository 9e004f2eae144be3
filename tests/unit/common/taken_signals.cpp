#include "common/base/taken_signals.h"

#include <doctest/doctest.h>
#include <poll.h>

#include <csignal>
#include <thread>

using meshbus::TakenSignals;

namespace {

volatile std::sig_atomic_t handled = 0;

}  // namespace

TEST_CASE("taken_signals: a signal is read, and does what it does to any program once released") {
  struct sigaction before{};
  struct sigaction counting{};
  counting.sa_handler = [](int) { handled = handled + 1; };
  ::sigaction(SIGUSR1, &counting, &before);
  // A thread has signals of its own, so nobody else sees these.
  std::thread([] {
    TakenSignals signals({SIGUSR1, SIGUSR2});
    pollfd readable{signals.fd(), POLLIN, 0};
    CHECK(::poll(&readable, 1, 0) == 0);
    CHECK_FALSE(signals.next().has_value());
    std::raise(SIGUSR2);
    CHECK(::poll(&readable, 1, 0) == 1);
    CHECK(signals.next() == SIGUSR2);
    std::raise(SIGUSR1);
    CHECK(signals.next() == SIGUSR1);
    CHECK_FALSE(signals.next().has_value());
    std::raise(SIGUSR1);
    CHECK(handled == 0);
    signals.release();
    CHECK(handled == 1);
  }).join();
  ::sigaction(SIGUSR1, &before, nullptr);
}
