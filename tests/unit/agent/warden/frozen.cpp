#include "agent/warden/frozen.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <stop_token>
#include <thread>

namespace meshbus::warden {
namespace {

using namespace std::chrono_literals;

TEST_CASE("frozen: a warden that was away itself blames nobody") {
  const std::chrono::steady_clock::time_point due{100s};
  CHECK_FALSE(was_away(due, due, 10s));
  CHECK_FALSE(was_away(due + 10s, due, 10s));
  CHECK(was_away(due + 10001ms, due, 10s));
  // Short limits are for tests: a look is not late because it was a moment late.
  CHECK_FALSE(was_away(due + 500ms, due, 100ms));
  CHECK(was_away(due + 501ms, due, 100ms));
  CHECK_FALSE(was_away(due - 1s, due, 10s));
}

TEST_CASE("frozen: threads that end while they are looked at are no threads") {
  const std::jthread busy([](const std::stop_token& stop) {
    while (!stop.stop_requested()) std::thread([] {}).join();
  });
  for (int i = 0; i < 1000; ++i) {
    const auto looks = look_at_threads(::getpid());
    REQUIRE(!looks.empty());
    REQUIRE(looks.front().tid == ::getpid());
  }
}

}  // namespace
}  // namespace meshbus::warden
