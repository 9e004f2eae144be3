#include "agent/warden/restart_policy.h"

#include <doctest/doctest.h>

namespace meshbus::warden {
namespace {

using namespace std::chrono_literals;

TEST_CASE("agent_warden: an agent is restarted at once, five times within a minute") {
  RestartPolicy policy({.most = RestartPolicy::kAgentRestarts});
  const RestartPolicy::Time t0{100s};
  for (int i = 0; i < 5; ++i) CHECK(policy.on_exit(t0 + i * 1s) == 0ms);
  CHECK(policy.used() == 5);
  CHECK_FALSE(policy.may_restart(t0 + 5s));
  CHECK(policy.may_restart(t0 + 60s + 1ms));
  CHECK_FALSE(policy.on_exit(t0 + 5s).has_value());
  // The first one is out of the window then.
  CHECK(policy.on_exit(t0 + 60s + 1ms) == 0ms);
  CHECK_FALSE(policy.on_exit(t0 + 60s + 2ms).has_value());
}

TEST_CASE("agent_warden: a broker is restarted without end, each time later, and never too late") {
  RestartPolicy policy({.most = std::nullopt});
  RestartPolicy::Time now{100s};
  CHECK(policy.on_exit(now) == 0ms);
  CHECK(policy.on_exit(now) == 50ms);
  CHECK(policy.on_exit(now) == 100ms);
  CHECK(policy.on_exit(now) == 200ms);
  for (int i = 0; i < 100; ++i) {
    const auto delay = policy.on_exit(now);
    REQUIRE(delay.has_value());
    CHECK(*delay >= 400ms);
    CHECK(*delay <= RestartPolicy::kLongestDelay);
    now += *delay;
  }
  CHECK(policy.on_exit(now) == RestartPolicy::kLongestDelay);
  // Mesh procs wait 10 s for a broker.
  CHECK(RestartPolicy::kLongestDelay <= 5s);
}

TEST_CASE("agent_warden: a broker that has run for a minute is restarted at once again") {
  RestartPolicy policy({.most = std::nullopt});
  const RestartPolicy::Time t0{100s};
  for (int i = 0; i < 8; ++i) policy.on_exit(t0);
  CHECK(policy.on_exit(t0 + 60s) > 0ms);
  CHECK(policy.on_exit(t0 + 60s + 121s) == 0ms);
  CHECK(policy.used() == 1);
}

}  // namespace
}  // namespace meshbus::warden
