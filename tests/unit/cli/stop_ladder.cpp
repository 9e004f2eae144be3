// When a run that stops its ranks goes on to the next step, and when it leaves.
#include "cli/run/stop_ladder.h"

#include <doctest/doctest.h>

using namespace std::chrono_literals;
using meshbus::cli::StopLadder;
using Step = StopLadder::Step;

namespace {

constexpr StopLadder::Time kBegin{100s};

}  // namespace

TEST_CASE("stop_ladder: a stop in order has its grace, then ranks are to end at once") {
  StopLadder ladder;
  CHECK_FALSE(ladder.has_begun());
  CHECK_FALSE(ladder.due().has_value());
  CHECK_FALSE(ladder.pass(kBegin));
  CHECK(ladder.begin(false, 10s, kBegin));
  CHECK(ladder.step() == Step::gracefully);
  CHECK(ladder.due() == kBegin + 15s);
  CHECK_FALSE(ladder.pass(kBegin + 14s));
  CHECK(ladder.pass(kBegin + 15s));
  CHECK_FALSE(ladder.pass(kBegin + 16s));
  CHECK(ladder.begin(true, 10s, kBegin + 15s));
  CHECK(ladder.step() == Step::at_once);
  CHECK(ladder.due() == kBegin + 20s);
  // They were told already.
  CHECK_FALSE(ladder.begin(true, 10s, kBegin + 16s));
  CHECK_FALSE(ladder.begin(false, 10s, kBegin + 16s));
  CHECK(ladder.due() == kBegin + 20s);
}

TEST_CASE("stop_ladder: hosts that do not answer are waited for until they know what is wrong") {
  StopLadder ladder;
  ladder.begin(true, 10s, kBegin);
  auto now = kBegin;
  int orders = 0;
  while (ladder.due()) {
    now = *ladder.due();
    REQUIRE(ladder.pass(now));
    if (ladder.wait_for_silent(now)) ++orders;
  }
  CHECK(orders == 7);
  CHECK(now == kBegin + StopLadder::kSilenceLimit);
}

TEST_CASE("stop_ladder: a user who asks again does not wait for silent hosts") {
  StopLadder ladder;
  ladder.begin(true, 10s, kBegin);
  CHECK(ladder.pass(kBegin + 5s));
  CHECK(ladder.wait_for_silent(kBegin + 5s));
  ladder.hurry(kBegin + 6s);
  CHECK(ladder.pass(kBegin + 6s));
  CHECK_FALSE(ladder.wait_for_silent(kBegin + 6s));
}
