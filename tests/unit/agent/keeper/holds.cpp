#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>

#include "agent/keeper/hold_plan.h"

namespace meshbus::keeper {
namespace {

using namespace std::chrono_literals;

TEST_CASE("hold_plan: a proc is stopped once, and continued when its time is over") {
  HoldPlan plan;
  const HoldPlan::Time t0{10s};
  CHECK(plan.due() == HoldPlan::Time::max());
  REQUIRE(plan.add({.id = 7, .for_ms = 5000, .percent = 100, .most = 1}, t0) == 0);
  CHECK(plan.due() == t0);
  const auto first = plan.take_steps(t0);
  REQUIRE(first.size() == 1);
  CHECK(first[0].id == 7);
  CHECK(first[0].stop);
  CHECK(plan.take_steps(t0 + 4999ms).empty());
  CHECK(plan.due() == t0 + 5s);
  const auto last = plan.take_steps(t0 + 5s);
  REQUIRE(last.size() == 1);
  CHECK_FALSE(last[0].stop);
  CHECK(plan.size() == 0);
}

TEST_CASE(
    "hold_plan: a slow proc stands still for its part of each period, and goes on at the end") {
  HoldPlan plan;
  const HoldPlan::Time t0{10s};
  REQUIRE(plan.add({.id = 1, .for_ms = 250, .percent = 30, .most = 4}, t0) == 0);
  bool is_stopped = false;
  std::chrono::milliseconds stopped(0);
  for (auto now = t0; now <= t0 + 260ms; now += 1ms) {
    for (const auto& step : plan.take_steps(now)) is_stopped = step.stop;
    if (is_stopped) stopped += 1ms;
  }
  CHECK_FALSE(is_stopped);
  CHECK(stopped == 90ms);
  CHECK(plan.size() == 0);
}

TEST_CASE("hold_plan: one that comes late ends what is over, and owes nothing") {
  HoldPlan plan;
  const HoldPlan::Time t0{10s};
  REQUIRE(plan.add({.id = 1, .for_ms = 1000, .percent = 50, .most = 4}, t0) == 0);
  CHECK(plan.take_steps(t0).size() == 1);
  const auto steps = plan.take_steps(t0 + 1h);
  REQUIRE(steps.size() == 1);
  CHECK_FALSE(steps[0].stop);
}

TEST_CASE("hold_plan: there are bounds") {
  HoldPlan plan;
  const HoldPlan::Time t0{10s};
  CHECK(plan.add({.id = 1, .for_ms = 0, .percent = 100, .most = 2}, t0) == EINVAL);
  CHECK(plan.add({.id = 1, .for_ms = 10, .percent = 0, .most = 2}, t0) == EINVAL);
  CHECK(plan.add({.id = 1, .for_ms = 10, .percent = 101, .most = 2}, t0) == EINVAL);
  CHECK(plan.add({.id = 1, .for_ms = 10, .percent = 100, .most = 2}, t0) == 0);
  CHECK(plan.add({.id = 1, .for_ms = 10, .percent = 100, .most = 2}, t0) == EALREADY);
  CHECK(plan.add({.id = 2, .for_ms = 10, .percent = 100, .most = 2}, t0) == 0);
  CHECK(plan.add({.id = 3, .for_ms = 10, .percent = 100, .most = 2}, t0) == EBUSY);
  CHECK(plan.release(1));
  CHECK_FALSE(plan.release(1));
  CHECK(plan.add({.id = 3, .for_ms = 10, .percent = 100, .most = 2}, t0) == 0);
}

}  // namespace
}  // namespace meshbus::keeper
