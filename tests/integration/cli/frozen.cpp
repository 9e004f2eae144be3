// Spec 8.7: a mesh proc that is there and does not answer is told as frozen, and is not dead.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>

#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

namespace {

/// The troubles of a rank, in the order in which they were told.
Words troubles_of(const Process& watch, std::uint64_t rank) {
  Words troubles;
  for (const auto& line : lines_of(watch.out().substr(0, watch.out().rfind('\n') + 1))) {
    const json event = parse_json(line);
    if (event.at("event") == "trouble" && event.at("rank") == rank)
      troubles.push_back(event.at("trouble"));
  }
  return troubles;
}

json listed_ranks(const StandingHost& host) {
  const json listing = parse_json(run_cli({"ps", "--json", "--hosts", host.address()}).out);
  return listing.at("meshes").empty() ? json::array() : listing.at("meshes")[0].at("ranks");
}

}  // namespace

TEST_CASE(
    "cli: a mesh proc that is stopped by a signal is frozen, not dead, and recovers when it goes "
    "on") {
  StandingHost host({"--set", "heartbeat=500ms", "--set", "session.away=4s"});
  const TempDir dir;
  Process run(
      cli({"run", "--hosts", host.address(), "--name", "work", "--mesh", "-n", "2", "--restart",
           "always", "--gang", "all", "--", bin("echo_proc"), dir.path().string()}));
  json before;
  const auto are_ready = [&] {
    before = listed_ranks(host);
    return before.size() == 2 && before[0].at("status") == "ready" &&
           before[1].at("status") == "ready";
  };
  {
    const bool is_up = wait_until(are_ready, in_time);
    INFO(run.describe());
    REQUIRE(is_up);
  }
  CHECK(before[1].at("trouble").is_null());
  Process lines(cli({"watch", "--json", "--hosts", host.address()}));
  Process text(cli({"watch", "work", "--hosts", host.address()}));
  REQUIRE(wait_until(
      [&] { return text.out().find("rank 1") != std::string::npos && !lines.out().empty(); },
      in_time));

  const auto pid = before[1].at("pid").get<pid_t>();
  REQUIRE(::kill(pid, SIGSTOP) == 0);
  const auto has_told = [&](const std::string& trouble) {
    const auto told = troubles_of(lines, 1);
    return !told.empty() && told.back() == trouble;
  };
  {
    const bool is_told = wait_until([&] { return has_told("frozen"); }, in_time);
    INFO(lines.describe());
    INFO(text.describe());
    INFO(run.describe());
    INFO(host.process().describe());
    INFO(listed_ranks(host).dump(2));
    REQUIRE(is_told);
  }
  CHECK(wait_until(
      [&] {
        return text.out().find(": frozen: stopped by a signal, nothing from it for ") !=
               std::string::npos;
      },
      in_time));
  const json frozen = listed_ranks(host);
  REQUIRE(frozen.size() == 2);
  CHECK(frozen[1].at("status") == "ready");
  CHECK(frozen[1].at("trouble").at("trouble") == "frozen");
  CHECK(frozen[1].at("trouble").at("reason").get<std::string>().find("stopped by a signal") == 0);
  CHECK(run_cli({"ps", "--hosts", host.address()}).out.find("frozen: stopped by a signal") !=
        std::string::npos);
  CHECK(run_cli({"status", "--hosts", host.address()}).out.find("  1      frozen\n") !=
        std::string::npos);
  CHECK(wait_until(
      [&] { return run.err().find("rank 1 is frozen: stopped by a signal") != std::string::npos; },
      in_time));

  REQUIRE(::kill(pid, SIGCONT) == 0);
  REQUIRE(wait_until([&] { return has_told("none"); }, in_time));
  CHECK(wait_until([&] { return text.out().find(": answers in time again") != std::string::npos; },
                   in_time));
  CHECK(wait_until([&] { return run.err().find("rank 1 answers again") != std::string::npos; },
                   in_time));
  const auto told = troubles_of(lines, 1);
  CHECK(std::count(told.begin(), told.end(), "frozen") == 1);
  const auto of_other = troubles_of(lines, 0);
  CHECK(std::count(of_other.begin(), of_other.end(), "frozen") == 0);
  // Nobody was stopped or started anew for that.
  const json after = listed_ranks(host);
  REQUIRE(after.size() == 2);
  for (const std::size_t rank : {0U, 1U}) {
    CHECK(after[rank].at("pid") == before[rank].at("pid"));
    CHECK(after[rank].at("restarts") == 0);
    CHECK(after[rank].at("status") == "ready");
  }
  CHECK(after[1].at("trouble").is_null());
  CHECK(run.is_running());
  for (Process* process : {&lines, &text, &run}) {
    process->send_signal(SIGINT);
    CHECK(process->wait_exit(in_time) == ExitStatus::exited(130));
  }
}

TEST_CASE("cli: run says when it gives up the ranks of a host that does not answer") {
  StandingHost one;
  StandingHost two;
  const auto hosts = one.address() + "," + two.address();
  const auto sleep = own_sleep();
  Process run(cli(
      {"run", "--hosts", hosts, "--set", "delivery.limit=40s", "--", "sh", "-c", "exec " + sleep}));
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 2; }, in_time));
  {
    const FrozenHost frozen(two.roles());
    CHECK(wait_until(
        [&] {
          return run.err().find("host " + two.address() + " does not answer: ") !=
                     std::string::npos &&
                 run.err().find("; its ranks are given up after 40s of silence (delivery.limit)") !=
                     std::string::npos;
        },
        in_time));
  }
  CHECK(wait_until([&] { return run.err().find(" answers again") != std::string::npos; }, in_time));
  INFO(run.describe());
  CHECK(run.is_running());
  CHECK(sleepers(sleep).size() == 2);
  run.send_signal(SIGINT);
  CHECK(run.wait_exit(in_time) == ExitStatus::exited(130));
}
