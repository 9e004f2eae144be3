#include "agent/warden/role_faults.h"

#include <doctest/doctest.h>

#include <csignal>

namespace meshbus::warden {
namespace {

using namespace std::chrono_literals;

constexpr pid_t kBroker = 12;
constexpr pid_t kAgent = 13;
constexpr std::array<pid_t, kRoleCount> kPids{11, kBroker, kAgent};

TEST_CASE("role_faults: orders are read, and nothing else is") {
  const auto freeze = RoleFaults::parse("freeze broker 5000");
  REQUIRE(freeze.has_value());
  CHECK(freeze->role == RoleName::broker);
  CHECK_FALSE(freeze->is_kill);
  CHECK(freeze->length == 5s);
  const auto kill = RoleFaults::parse("kill agent 0");
  REQUIRE(kill.has_value());
  CHECK(kill->role == RoleName::agent);
  CHECK(kill->is_kill);
  for (const char* const text : {"", "freeze", "freeze broker", "freeze keeper 5", "stop agent 5",
                                 "kill agent -1", "kill agent 5 6", "freeze broker 99999999999"})
    CHECK_FALSE(RoleFaults::parse(text).has_value());
}

TEST_CASE("role_faults: a role is stopped after the delay, and continued when its time is over") {
  RoleFaults faults;
  const RoleFaults::Time t0{10s};
  const RoleFaults::Order order{.role = RoleName::broker, .is_kill = false, .length = 5s};
  REQUIRE(faults.add(order, kBroker, t0));
  CHECK_FALSE(faults.add(order, kBroker, t0 + 1s));
  CHECK(faults.take_steps(t0, kPids).empty());
  CHECK(faults.due() == t0 + RoleFaults::kDelay);
  auto steps = faults.take_steps(t0 + RoleFaults::kDelay, kPids);
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].pid == kBroker);
  CHECK(steps[0].signal == SIGSTOP);
  CHECK(faults.due() == t0 + RoleFaults::kDelay + 5s);
  steps = faults.take_steps(t0 + 6s, kPids);
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].signal == SIGCONT);
  CHECK_FALSE(faults.due().has_value());
}

TEST_CASE("role_faults: a process that is not the role's any more gets no signal") {
  RoleFaults faults;
  const RoleFaults::Time t0{10s};
  REQUIRE(faults.add({.role = RoleName::agent, .is_kill = false, .length = 5s}, kAgent, t0));
  REQUIRE(faults.add({.role = RoleName::broker, .is_kill = true}, kBroker, t0));
  CHECK(faults.take_steps(t0 + 1s, {11, 22, 23}).empty());
  CHECK_FALSE(faults.due().has_value());
  // A new one can be disturbed.
  CHECK(faults.add({.role = RoleName::agent, .is_kill = true}, 23, t0 + 1s));
  const auto steps = faults.take_steps(t0 + 2s, {11, 22, 23});
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].pid == 23);
  CHECK(steps[0].signal == SIGKILL);
}

TEST_CASE("role_faults: when the host ends, what is stopped goes on and nothing begins") {
  RoleFaults faults;
  const RoleFaults::Time t0{10s};
  REQUIRE(faults.add({.role = RoleName::agent, .is_kill = false, .length = 1h}, kAgent, t0));
  CHECK(faults.take_steps(t0 + 1s, kPids).size() == 1);
  REQUIRE(faults.add({.role = RoleName::broker, .is_kill = true}, kBroker, t0 + 1s));
  const auto steps = faults.take_ends(kPids);
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].pid == kAgent);
  CHECK(steps[0].signal == SIGCONT);
  CHECK_FALSE(faults.due().has_value());
}

}  // namespace
}  // namespace meshbus::warden
