#include "agent/warden/upgrade_plan.h"

#include <doctest/doctest.h>

namespace meshbus::warden {
namespace {

using namespace std::chrono_literals;
constexpr UpgradePlan::Time t0{10s};

UpgradePlan begun() {
  UpgradePlan plan;
  REQUIRE(plan.begin(t0));
  CHECK(plan.due() == t0 + UpgradePlan::kDelay);
  CHECK_FALSE(plan.current().has_value());
  plan.go_on();
  return plan;
}

}  // namespace

TEST_CASE("upgrade_plan: the broker is replaced, then the agent, each within its limit") {
  auto plan = begun();
  CHECK(plan.current() == RoleName::broker);
  CHECK_FALSE(plan.is_started());
  CHECK_FALSE(plan.due().has_value());
  plan.on_ready();  // of the old one: it does not count
  CHECK(plan.current() == RoleName::broker);
  plan.on_started(t0);
  CHECK(plan.due() == t0 + UpgradePlan::kBrokerLimit);
  CHECK_FALSE(plan.begin(t0));
  plan.on_ready();
  CHECK(plan.current() == RoleName::agent);
  CHECK_FALSE(plan.is_started());
  plan.on_started(t0);
  CHECK(plan.due() == t0 + UpgradePlan::kAgentLimit);
  CHECK_FALSE(plan.is_back());
  plan.on_ready();
  CHECK(plan.outcome() == UpgradeOutcome::done);
  CHECK_FALSE(plan.current().has_value());
  CHECK_FALSE(plan.due().has_value());
  CHECK(plan.begin(t0));
}

TEST_CASE("upgrade_plan: a broker that is not ready is taken back alone") {
  auto plan = begun();
  plan.on_started(t0);
  plan.on_trouble();
  CHECK(plan.is_back());
  CHECK(plan.current() == RoleName::broker);
  CHECK_FALSE(plan.is_started());
  plan.on_started(t0);
  plan.on_ready();
  CHECK(plan.outcome() == UpgradeOutcome::rolled_back);
}

TEST_CASE("upgrade_plan: an agent that is not ready takes the broker back with it") {
  auto plan = begun();
  plan.on_started(t0);
  plan.on_ready();
  plan.on_started(t0);
  plan.on_trouble();
  CHECK(plan.current() == RoleName::agent);
  plan.on_started(t0);
  plan.on_ready();
  CHECK(plan.current() == RoleName::broker);
  CHECK(plan.is_back());
  CHECK(plan.is_running());
  plan.on_started(t0);
  plan.on_ready();
  CHECK(plan.outcome() == UpgradeOutcome::rolled_back);
}

TEST_CASE("upgrade_plan: programs of before that are not ready either are a failure") {
  auto plan = begun();
  plan.on_started(t0);
  plan.on_trouble();
  plan.on_started(t0);
  plan.on_trouble();
  CHECK(plan.outcome() == UpgradeOutcome::failed);
  CHECK_FALSE(plan.current().has_value());
  CHECK_FALSE(plan.due().has_value());
  REQUIRE(plan.begin(t0));
  CHECK_FALSE(plan.is_back());
}

}  // namespace meshbus::warden
