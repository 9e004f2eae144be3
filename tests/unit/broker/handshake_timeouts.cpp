#include <doctest/doctest.h>

#include <algorithm>

#include "broker/access/handshake_timeouts.h"
#include "broker/access/rate_limit.h"

using namespace meshbus;
using namespace std::chrono_literals;

namespace {

constexpr RateLimit::Time start{1h};

}  // namespace

TEST_CASE("rate_limit: so many at once after a pause, then so many a second, however one asks") {
  const RateLimit limit(100, 500);
  RateLimit::Time rested{};
  int taken = 0;
  for (int i = 0; i < 2000; ++i) taken += limit.take(rested, start) ? 1 : 0;
  CHECK(taken == 500);
  CHECK_FALSE(limit.take(rested, start + 9ms));
  CHECK(limit.take(rested, start + 10ms));
  CHECK_FALSE(limit.take(rested, start + 10ms));

  taken = 0;
  for (auto now = start; now < start + 10s; now += 1ms) taken += limit.take(rested, now) ? 1 : 0;
  CHECK(taken >= 997);
  CHECK(taken <= 1000);
  // What was refused costs nothing, and a pause gives no more than the first time.
  taken = 0;
  for (int i = 0; i < 2000; ++i) taken += limit.take(rested, start + 1h) ? 1 : 0;
  CHECK(taken == 500);
}

TEST_CASE("rate_limit: 0 a second is no limit, and a billion a second is one") {
  const RateLimit none(0, 0), most(1'000'000'000, 1);
  RateLimit::Time rested{}, other{};
  for (int i = 0; i < 10000; ++i) REQUIRE(none.take(rested, start));
  CHECK(most.take(other, start));
  CHECK_FALSE(most.take(other, start));
  CHECK(most.take(other, start + 1ns));
}

TEST_CASE("handshake_timeouts: each has its time, which its registration ends and a refusal shortens") {
  HandshakeTimeouts timeouts({.hello = 10s, .refused = 1s});
  const auto overdue = [&](RateLimit::Time now) {
    auto found = timeouts.take_overdue(now);
    std::sort(found.begin(), found.end());
    return found;
  };
  CHECK(timeouts.empty());
  for (const int descriptor : {3, 4, 5, 6, 8}) timeouts.opened(descriptor, start);
  timeouts.done(4);                 // registered, or gone
  timeouts.refused(5, start + 2s);  // and again
  timeouts.refused(5, start + 2500ms);
  timeouts.refused(7, start);  // not pending
  CHECK(overdue(start + 2999ms).empty());
  CHECK(overdue(start + 3s) == std::vector{5});
  // A connection whose Hello may just not have been read yet is left alone once; a late refusal does
  // not give more time than there was.
  timeouts.refused(6, start + 9500ms);
  CHECK(overdue(start + 10s) == std::vector{6});
  CHECK_FALSE(timeouts.empty());
  timeouts.done(8);  // it was there
  // The kernel has given the descriptor out again.
  timeouts.done(3);
  timeouts.opened(3, start + 9s);
  CHECK(overdue(start + 12s).empty());
  CHECK(overdue(start + 19s).empty());
  CHECK(overdue(start + 19s + 1ms) == std::vector{3});
  CHECK(timeouts.empty());
}
