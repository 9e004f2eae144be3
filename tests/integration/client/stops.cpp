// What stops and signals of a launcher do, and what they say.
#include <csignal>
#include <fstream>

#include "tests/integration/client/sleeping_ranks.h"

namespace meshbus::test::sleeping {

/// A set of signals of a process, by its name in /proc/PID/status.
inline std::uint64_t bits_of(pid_t pid, std::string_view name) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::stoull(line.substr(name.size() + 2), nullptr, 16);
  }
  return 0;
}

TEST_CASE("client: spec 6.4: a stop ends everything and says how far it had to go") {
  ProcSpec spec;
  const auto sleep = own_sleep();
  spec.command = {
      "sh", "-c",
      "if [ $RANK = 1 ]; then trap '' TERM; fi; echo up; while :; do " + sleep + "; done"};
  spec.grace = 300ms;
  spec.output = OutputMode::stream;
  Sleepers sleepers("host=1", "gpu=2", {}, spec);
  const bool are_up = wait_until(
      [&] { return sleepers.heard.output(0) == "up\n" && sleepers.heard.output(1) == "up\n"; },
      in_time);
  INFO(sleepers.describe());
  REQUIRE(are_up);
  const auto outcome = must(sleepers.mesh->stop({.reason = "enough"}));
  CHECK(outcome.is_ended());
  CHECK(outcome.exit_code() == 0);
  CHECK(outcome.ranks[0].step == StopStep::term);
  CHECK(outcome.ranks[1].step == StopStep::kill);
  CHECK(outcome.ranks[1].stop_reason == "enough");
  CHECK_FALSE(outcome.ranks[1].stopped_by.empty());
  CHECK(must(sleepers.mesh->stop()).is_ended());
  CHECK(sleepers.heard.failures().empty());
  CHECK(processes_with(sleep).empty());
  must(sleepers.hosts.shutdown(in_time));
}

TEST_CASE("client: some ranks can be stopped and signalled, the others go on") {
  Sleepers sleepers("host=2", "gpu=2");
  const auto outcome = must(sleepers.mesh->stop({.reason = "smaller", .ranks = {{1, 3}}}));
  CHECK_FALSE(outcome.is_ended());
  CHECK(outcome.ranks[1].is_terminal());
  CHECK(outcome.ranks[2].is_terminal());
  CHECK(sleepers.mesh->known().ranks[0].state == ProcState::ready);
  CHECK(sleepers.mesh->signal({{0, 1}, {3, 4}}, SIGUSR1).has_value());
  CHECK(must(sleepers.mesh->wait(in_time)).ranks[3].signal == SIGUSR1);
  CHECK(sleepers.mesh->signal({}, SIGUSR1).error().code() == ErrorCode::not_exist);
  CHECK(sleepers.mesh->signal({}, 99).error().code() == ErrorCode::configuration_error);
  must(sleepers.hosts.shutdown(in_time));
}

TEST_CASE("client: spec 6.4: a stop that reaches nobody says so and names the ranks") {
  Sleepers sleepers("host=1", "gpu=2");
  const auto agent = sleepers.roles(0).agent;
  ::kill(agent, SIGSTOP);
  const auto stopped = sleepers.mesh->stop({.deadline = 700ms});
  const auto status = must(sleepers.mesh->status(300ms));
  ::kill(agent, SIGCONT);
  REQUIRE_FALSE(stopped.has_value());
  INFO(stopped.error().to_string());
  CHECK(stopped.error().code() == ErrorCode::stop_error);
  CHECK(stopped.error().detail().find("2 of 2 ranks are not ended: rank 0 (host=0,gpu=0 on ") !=
        std::string::npos);
  CHECK(stopped.error().detail().find("did not take the order") != std::string::npos);
  for (const auto& rank : status) CHECK(rank.state == ProcState::unknown);
  CHECK(must(sleepers.mesh->stop()).is_ended());
  must(sleepers.hosts.shutdown(in_time));
}

TEST_CASE("client: a signal that a host does not take says which ranks got it and which did not") {
  Sleepers sleepers("host=2", "gpu=2");
  const auto agent = sleepers.roles(1).agent;
  ::kill(agent, SIGSTOP);
  const auto sent = sleepers.mesh->signal({}, SIGCONT, 700ms);
  ::kill(agent, SIGCONT);
  REQUIRE_FALSE(sent.has_value());
  INFO(sent.error().to_string());
  CHECK(sent.error().code() == ErrorCode::timeout);
  CHECK(sent.error().detail().find(": ranks 0-1 got it; ranks 2-3 on " +
                                   sleepers.hosts.hosts()[1].to_string() + " did not: ") !=
        std::string::npos);
  CHECK(sleepers.mesh->signal({}, SIGCONT).has_value());
  must(sleepers.hosts.shutdown(in_time));
}

TEST_CASE("client: a signal is with the kernel when signal() returns, and not before") {
  Sleepers sleepers("host=1", "gpu=2", {}, shell("exec env --block-signal=USR1 " + own_sleep()));
  const auto blocks = [&](std::uint64_t rank) {
    return bits_of(sleepers.pid(rank), "SigBlk") >> (SIGUSR1 - 1) & 1;
  };
  REQUIRE(wait_until([&] { return blocks(0) != 0 && blocks(1) != 0; }, in_time));
  const auto keeper = sleepers.roles(0).keeper;
  ::kill(keeper, SIGSTOP);
  const auto sent = sleepers.mesh->signal({}, SIGUSR1, 700ms);
  ::kill(keeper, SIGCONT);
  REQUIRE_FALSE(sent.has_value());
  CHECK(sent.error().code() == ErrorCode::timeout);
  REQUIRE(sleepers.mesh->signal({}, SIGUSR1).has_value());
  for (std::uint64_t rank = 0; rank < 2; ++rank)
    CHECK((bits_of(sleepers.pid(rank), "ShdPnd") >> (SIGUSR1 - 1) & 1) != 0);
  must(sleepers.hosts.shutdown(in_time));
}

}  // namespace meshbus::test::sleeping
