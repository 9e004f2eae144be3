// What a launcher hears when hosts, brokers and agents die.
#include <algorithm>
#include <csignal>

#include "tests/integration/client/sleeping_ranks.h"

namespace meshbus::test::sleeping {

TEST_CASE(
    "client: when a host process dies its ranks are lost, at once and in words, and the others go "
    "on") {
  Sleepers sleepers("host=2", "gpu=2");
  std::size_t victim = 0;
  SUBCASE("the host to which the launcher is connected") {
    victim = 0;
  }
  SUBCASE("another one") {
    victim = 1;
  }
  ::kill(sleepers.roles(victim).warden, SIGKILL);
  REQUIRE(wait_until([&] { return sleepers.heard.failures().size() == 2; }, in_time));
  for (const auto& rank : sleepers.heard.failures()) {
    INFO(rank.describe());
    CHECK(rank.host_index == victim);
    CHECK(rank.is_failure());
  }
  // Nothing will ever answer there: calls say so, and do not wait.
  const auto lost = must(sleepers.mesh->proc(2 * victim));
  const auto is_unreachable = [](const auto& answer) {
    return !answer && answer.error().code() == ErrorCode::host_unreachable;
  };
  REQUIRE(wait_until([&] { return is_unreachable(lost.call(sleepers.context, 1, "", 200ms)); },
                     in_time));
  const auto begin = std::chrono::steady_clock::now();
  const auto called = lost.call(sleepers.context, 1, "", in_time);
  CHECK(is_unreachable(called));
  CHECK(called.error().detail().find(sleepers.hosts.hosts()[victim].to_string() + " is lost: ") !=
        std::string::npos);
  const auto all =
      must(sleepers.context.call(must(sleepers.mesh->ref().at("host", victim)), 1, "", in_time));
  REQUIRE(all.size() == 2);
  for (const auto& answer : all) CHECK(is_unreachable(answer));
  CHECK(std::chrono::steady_clock::now() - begin < in_time / 2);
  REQUIRE(wait_until(
      [&] { return sleepers.mesh->stop({.grace = 100ms, .deadline = 10s}).has_value(); }, in_time));
  CHECK(sleepers.heard.failures().size() == 2);
  const auto summary = sleepers.hosts.shutdown(in_time);
  INFO((summary ? std::string() : summary.error().to_string()));
  CHECK(summary.has_value());
  CHECK(wait_until([&] { return processes_with(sleepers.sleep).empty(); }, cleaned_up));
}

TEST_CASE("client: calls to a rank fail at once when the loss of its host was told") {
  Sleepers sleepers("host=2", "gpu=1", {},
                    {.kind = ProcKind::mesh, .command = {bin("meshbus_test_proc"), "serve"}});
  REQUIRE(must(sleepers.mesh->proc(1)).call(sleepers.context, 1, "hello", in_time).has_value());
  ::kill(sleepers.roles(1).warden, SIGKILL);
  REQUIRE(wait_until([&] { return sleepers.heard.failures().size() == 1; }, in_time));
  // Without the news it would be a timeout.
  const auto called = must(sleepers.mesh->proc(1)).call(sleepers.context, 1, "", 2s);
  REQUIRE_FALSE(called.has_value());
  INFO(called.error().to_string());
  CHECK(called.error().code() == ErrorCode::host_unreachable);
  const auto all = must(sleepers.context.call(sleepers.mesh->ref(), 1, "hello", in_time));
  REQUIRE(all.size() == 2);
  CHECK(all[0].has_value());
  CHECK((!all[1] && all[1].error().code() == ErrorCode::host_unreachable));
  CHECK(sleepers.mesh->stop().has_value());
}

TEST_CASE(
    "client: spec 6.8: when the host is lost through which a launcher hears, no line of the others "
    "is missing, and the end comes at once") {
  constexpr int kLines = 400;
  ProcSpec spec;
  spec.output = OutputMode::stream;
  spec.command = {"sh", "-c",
                  "i=0; while [ $i -lt " + std::to_string(kLines) +
                      " ]; do i=$((i+1)); echo line $i; sleep 0.01; done"};
  Sleepers sleepers("host=3", "gpu=2", {}, spec);
  REQUIRE(wait_until([&] { return sleepers.heard.output(2).size() > 200; }, in_time));
  ::kill(sleepers.roles(0).warden, SIGKILL);
  const auto outcome = must(sleepers.mesh->wait(60s));
  const auto told = std::chrono::system_clock::now();
  std::string all;
  for (int i = 1; i <= kLines; ++i) all += "line " + std::to_string(i) + "\n";
  std::chrono::system_clock::time_point last;
  for (std::uint64_t rank = 2; rank < 6; ++rank) {
    INFO(outcome.ranks[rank].describe());
    CHECK(outcome.ranks[rank].exit_code == 0);
    CHECK(sleepers.heard.output(rank).size() == all.size());
    CHECK((sleepers.heard.output(rank) == all));
    last = std::max(last, outcome.ranks[rank].ended.value_or(last));
  }
  CHECK(told - last < 2s);
  CHECK(sleepers.heard.failures().size() == 2);
  CHECK(sleepers.hosts.shutdown(in_time).has_value());
}

TEST_CASE("client: a new broker is found again, and nothing that happened meanwhile is missed") {
  Sleepers sleepers("host=1", "gpu=2");
  const auto roles = sleepers.roles(0);
  ::kill(roles.broker, SIGKILL);
  ::kill(sleepers.pid(1), SIGTERM);
  REQUIRE(wait_until([&] { return sleepers.heard.failures().size() == 1; }, in_time));
  CHECK(sleepers.heard.failures()[0].rank == 1);
  CHECK(sleepers.heard.failures()[0].signal == SIGTERM);
  CHECK(must(sleepers.mesh->stop()).is_ended());
  must(sleepers.hosts.shutdown(in_time));
}

TEST_CASE(
    "client: an agent is replaced before it was ever asked who it is, while the launcher moves: "
    "the next one is asked for everything") {
  Sleepers sleepers("host=2", "gpu=1", {{"supervision.probe", "5s"}});
  const auto first = sleepers.roles(0);
  const auto second = sleepers.roles(1);
  REQUIRE(::kill(second.agent, SIGSTOP) == 0);
  REQUIRE(::kill(first.warden, SIGKILL) == 0);
  REQUIRE(wait_until([&] { return sleepers.heard.failures().size() == 1; }, in_time));
  // The launcher goes on from the second host, and asks the agent there for what it knows: in vain.
  CHECK_FALSE(must(sleepers.hosts.states(1s))[1].problem.empty());
  REQUIRE(::kill(second.agent, SIGKILL) == 0);
  const auto is_replaced = [&] {
    const auto now = find_roles(second.warden);
    return now && now->agent != second.agent;
  };
  REQUIRE(wait_until(is_replaced, in_time));
  REQUIRE(::kill(sleepers.pid(1), SIGTERM) == 0);
  REQUIRE(wait_until([&] { return sleepers.heard.failures().size() == 2; }, in_time));
  CHECK(sleepers.heard.failures()[1].signal == SIGTERM);
  CHECK(sleepers.hosts.shutdown(in_time).has_value());
}

}  // namespace meshbus::test::sleeping
