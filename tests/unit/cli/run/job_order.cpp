// Which role of a job is started when, and when the job is over (spec 17.6).
#include "cli/run/job_order.h"

#include <doctest/doctest.h>

using meshbus::cli::JobOrder;
using meshbus::cli::RoleArguments;
using State = JobOrder::State;
using Roles = std::vector<std::size_t>;

namespace {

RoleArguments a_role(const std::string& name, std::vector<std::string> after = {},
                     bool ends_job = false) {
  RoleArguments role;
  role.name = name;
  role.after = std::move(after);
  role.ends_job = ends_job;
  return role;
}

JobOrder order_of(const std::vector<RoleArguments>& roles) {
  auto order = JobOrder::make(roles);
  REQUIRE(order.has_value());
  return *order;
}

std::string problem_of(const std::vector<RoleArguments>& roles) {
  const auto order = JobOrder::make(roles);
  REQUIRE_FALSE(order.has_value());
  CHECK(order.error().code() == meshbus::ErrorCode::configuration_error);
  return order.error().detail();
}

}  // namespace

TEST_CASE("job_order: roles are started when what they wait for is ready, or done") {
  auto order =
      order_of({a_role("rollout", {"store", "prepare:done"}), a_role("store"), a_role("prepare")});
  CHECK(order.startable() == Roles{1, 2});
  CHECK(order.words_of_wait(0) == "store to be ready, prepare to be done");
  order.set(1, State::started);
  order.set(2, State::ready);
  CHECK(order.startable().empty());
  order.set(1, State::ready);
  CHECK(order.startable().empty());
  order.set(2, State::done);
  CHECK(order.startable() == Roles{0});
  order.set(0, State::started);
  CHECK(order.startable().empty());
}

TEST_CASE("job_order: a role that was ready and has ended with success counts as ready") {
  auto order = order_of({a_role("a"), a_role("b", {"a"})});
  order.set(0, State::done);
  CHECK(order.startable() == Roles{1});
  CHECK_FALSE(order.stuck().has_value());
}

TEST_CASE("job_order: a role that has ended without its ready-text was never ready, but is done") {
  auto order = order_of({a_role("a"), a_role("b", {"a"}), a_role("c", {"a:done"})});
  order.set(0, State::unready);
  CHECK(order.startable() == Roles{2});
  REQUIRE(order.stuck().has_value());
  CHECK(order.stuck()->role == 1);
  CHECK(order.stuck()->because == 0);
  order.set(1, State::done);
  order.set(2, State::done);
  CHECK(order.is_over());
}

TEST_CASE("job_order: a role that waits for one that has failed is stuck") {
  auto order = order_of({a_role("a"), a_role("b", {"a"})});
  order.set(0, State::failed);
  CHECK(order.startable().empty());
  REQUIRE(order.stuck().has_value());
  CHECK(order.stuck()->role == 1);
  CHECK(order.stuck()->because == 0);
}

TEST_CASE("job_order: a job is over when all roles have ended, or those that end it") {
  auto all = order_of({a_role("a"), a_role("b")});
  all.set(0, State::done);
  CHECK_FALSE(all.is_over());
  all.set(1, State::failed);
  CHECK(all.is_over());

  auto some =
      order_of({a_role("store"), a_role("train", {"store"}, true), a_role("eval", {}, true)});
  some.set(0, State::ready);
  some.set(1, State::done);
  CHECK_FALSE(some.is_over());
  some.set(2, State::done);
  CHECK(some.is_over());
  CHECK(some.is_done());
  CHECK_FALSE(some.is_ending(0));
  CHECK(some.is_ending(1));
  some.set(1, State::failed);
  CHECK(some.is_over());
  CHECK_FALSE(some.is_done());
}

TEST_CASE("job_order: what cannot be waited for is refused, with the role and what was meant") {
  CHECK(problem_of({a_role("store"), a_role("train", {"stroe"})}) ==
        "train: after: there is no role 'stroe'; did you mean 'store'?");
  CHECK(problem_of({a_role("a", {"a"})}) == "a: after: a role cannot wait for itself");
  // d waits for the circle, and is not in it.
  CHECK(problem_of({a_role("d", {"a"}), a_role("a", {"b"}), a_role("b", {"c:done"}),
                    a_role("c", {"a"})}) ==
        "a: after: a waits for b waits for c waits for a: they wait for each other; leave one of "
        "these out");
  auto named = a_role("a", {"nothing"});
  named.source = "rl.toml:3: [roles.a]";
  CHECK(problem_of({named}) == "rl.toml:3: [roles.a]: after: there is no role 'nothing'");
}
