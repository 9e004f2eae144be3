// `meshbus why` and the event log of a host (spec 4.9): what is told although agent, keeper or host
// died.
#include <doctest/doctest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <optional>
#include <set>

#include "tests/integration/cli/why_world.h"
#include "tests/integration/needs.h"

namespace meshbus::test::why_world {

TEST_CASE("why: knows what was before the agent was killed, and what it did not live to tell") {
  StandingHost host;
  const auto& at = host.address();
  CHECK(run_on(at, {"--name", "before"}, "echo early >&2; exit 5").status == ExitStatus::exited(5));
  SleepingRanks during(at, {"--name", "during", "--keep-going"}, 3);
  const auto roles = host.roles();
  REQUIRE(::kill(roles.agent, SIGKILL) == 0);
  REQUIRE(wait_until(
      [&] {
        const auto now = find_roles(roles.warden);
        return now && now->agent != roles.agent;
      },
      in_time));
  for (const auto& process : sleepers(during.sleep)) REQUIRE(::kill(process.pid, SIGUSR1) == 0);
  CHECK(during.process.wait_exit(in_time) == ExitStatus::exited(128 + SIGUSR1));
  const auto before = why(at, {"before"});
  CHECK(before.at("first").at("end").at("exit_code") == 5);
  CHECK(before.at("first").at("end").at("stderr_tail") == json({"early"}));
  const auto ends = ends_of(at, "during");
  REQUIRE(ends.size() == 3);
  for (const auto& [rank, end] : ends) CHECK(end.at("signal") == SIGUSR1);
  // The mesh lived while the agent died, and says so.
  std::set<std::string> kinds;
  const auto story = why(at, {"during"});
  for (const auto& event : story.at("events")) {
    kinds.insert(event.at("kind").get<std::string>());
    if (event.at("kind") == "role_ended")
      CHECK(event.at("text").get<std::string>().starts_with(
          "the agent was killed by SIGKILL: restarting it"));
  }
  CHECK(kinds.contains("role_ended"));
  CHECK(kinds.contains("agent_started"));
}

TEST_CASE("why: every end is told once although the agent dies at any moment") {
  StandingHost host;
  const auto& at = host.address();
  SleepingRanks mesh(at, {"--name", "many", "--keep-going"}, 24, "trap 'exit $RANK' USR1; ");
  const auto roles = host.roles();
  auto victims = sleepers(mesh.sleep);
  int round = 0;
  for (const auto& process : victims) {
    ::kill(process.pid, SIGUSR2);
    if (++round % 8 != 0) continue;
    const auto before = find_roles(roles.warden);
    REQUIRE(before);
    ::kill(before->agent, SIGKILL);
    REQUIRE(wait_until(
        [&] {
          const auto now = find_roles(roles.warden);
          return now && now->agent != before->agent;
        },
        in_time));
  }
  mesh.process.wait_exit(in_time);
  CHECK(ends_of(at, "many").size() == 24);
}

TEST_CASE("why: ranks that went with a host which was started again are named") {
  const StandingHost stays({"--bind", "tcp:127.0.0.1:0", "--insecure"});
  std::optional<StandingHost> goes(Words{"--bind", "tcp:127.0.0.1:0", "--insecure"});
  const Words again{"--bind", goes->address(), "--insecure"};
  const auto hosts = stays.address() + "," + goes->address();
  const SleepingRanks ranks(hosts, {"--name", "half", "--keep-going"}, 2);
  CHECK(why(hosts, {"half"}).at("lost").empty());
  for (const pid_t pid : goes->roles().all()) ::kill(pid, SIGKILL);
  goes.reset();
  goes.emplace(again);
  const auto story = why(hosts, {"half"});
  INFO(story.dump(2));
  CHECK(story.at("lost") ==
        json::parse(R"([{"host": ")" + goes->address() + R"(", "ranks": "1"}])"));
  const auto told = run_cli({"why", "half[1]", "--hosts", hosts});
  INFO(told.err);
  CHECK(told.out.find("lost with their host:\n  rank 1 on " + goes->address() +
                      ": the host answers and knows nothing of this mesh") != std::string::npos);
}

TEST_CASE("why: with logs.directory the event log outlives its host, and has what ended with it") {
  const TempDir logs;
  {
    StandingHost host({"--set", "logs.directory=" + logs.path().string()});
    SleepingRanks mesh(host.address(), {"--name", "last"}, 2);
    CHECK(run_cli({"shutdown", "--hosts", host.address()}).status == ExitStatus::exited(0));
    mesh.process.wait_exit(in_time);
    host.process().wait_exit(in_time);
  }
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator(logs.path())) {
    if (entry.path().filename().string().starts_with("events-")) text += read_file(entry.path());
  }
  std::vector<json> events;
  for (const auto& line : lines_of(text)) events.push_back(parse_json(line));
  REQUIRE(events.size() == 4);
  CHECK(events[0].at("kind") == "agent_started");
  CHECK(events[1].at("kind") == "host_stopping");
  for (const std::size_t i : {2U, 3U}) {
    CHECK(events[i].at("kind") == "proc_ended");
    CHECK(events[i].at("cause") == "host_ended");
    CHECK(events[i].at("consequence") == true);
    CHECK(events[i].at("stop_reason") == "meshbus shutdown");
  }
}

TEST_CASE("why: who dies with the keeper says so, and whether it was frozen") {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    CAPTURE(signal);
    const TempDir logs;
    StandingHost host(
        {"--set", "frozen.limit=2s", "--set", "logs.directory=" + logs.path().string()});
    SleepingRanks mesh(host.address(), {"--name", "held", "--json", logs / "report"}, 2);
    REQUIRE(::kill(host.roles().keeper, signal) == 0);
    CHECK(mesh.process.wait_exit(in_time) == ExitStatus::exited(123));
    host.process().wait_exit(in_time);
    int ends = 0;
    bool is_told = false;
    for (const auto& entry : std::filesystem::directory_iterator(logs.path())) {
      if (!entry.path().filename().string().starts_with("events-")) continue;
      for (const auto& line : lines_of(read_file(entry.path()))) {
        const auto event = parse_json(line);
        INFO(line);
        if (event.at("kind") == "role_ended")
          is_told = is_told || event.at("text").get<std::string>().find(
                                   signal == SIGSTOP
                                       ? "it is frozen (stopped)"
                                       : "the keeper was killed by SIGKILL") != std::string::npos;
        if (event.at("kind") != "proc_ended") continue;
        ++ends;
        CHECK(event.at("cause") == (signal == SIGSTOP ? "frozen" : "keeper_lost"));
        CHECK(event.at("consequence") == true);
        CHECK(event.at("reason").get<std::string>().starts_with("keeper lost: "));
      }
    }
    CHECK(ends == 2);
    CHECK(is_told);
    // The launcher has heard it too.
    const auto report = parse_json(read_file(logs / "report"));
    for (const auto& rank : report.at("ranks"))
      CHECK(rank.at("cause") == (signal == SIGSTOP ? "frozen" : "keeper_lost"));
  }
}

TEST_CASE("why: a keeper whose end is heard of after that of its agent is what ended the host" *
          doctest::test_suite(need::root)) {
  const TempDir logs;
  StandingHost host({"--set", "logs.directory=" + logs.path().string()});
  const auto roles = host.roles();
  // The tracer of a process hears of its end before its parent does.
  REQUIRE(::ptrace(PTRACE_SEIZE, roles.keeper, nullptr, nullptr) == 0);
  REQUIRE(::kill(roles.keeper, SIGKILL) == 0);
  const bool has_agent_ended =
      wait_until([&] { return ::kill(roles.agent, 0) != 0 && errno == ESRCH; }, in_time);
  CHECK(::waitpid(roles.keeper, nullptr, __WALL) == roles.keeper);
  REQUIRE(has_agent_ended);
  host.process().wait_exit(in_time);
  std::string told;
  for (const auto& entry : std::filesystem::directory_iterator(logs.path())) {
    if (!entry.path().filename().string().starts_with("events-")) continue;
    for (const auto& line : lines_of(read_file(entry.path()))) {
      const auto event = parse_json(line);
      if (event.at("kind") == "role_ended") told += event.at("text").get<std::string>() + "\n";
    }
  }
  CHECK(told ==
        "the keeper was killed by SIGKILL: its procs were killed with it; ending the host\n");
}

TEST_CASE("why: an agent that is lost for good is what its launcher names") {
  const TempDir logs;
  const std::string sleep = own_sleep();
  Process launcher(cli({"run", "-n", "2", "--stdin", "none", "--json", logs / "report", "--set",
                        "agent.restart=end", "--set", "logs.directory=" + logs.path().string(),
                        "--", "sh", "-c", "exec " + sleep}));
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 2; }, in_time));
  const auto wardens = wardens_of(launcher.pid());
  REQUIRE(wardens.size() == 1);
  const auto roles = find_roles(wardens.front());
  REQUIRE(roles);
  REQUIRE(::kill(roles->agent, SIGKILL) == 0);
  CHECK(launcher.wait_exit(in_time) == ExitStatus::exited(123));
  const auto report = parse_json(read_file(logs / "report"));
  INFO(report.dump(2));
  for (const auto& rank : report.at("ranks")) {
    CHECK(rank.at("cause") == "host_lost");
    CHECK(rank.at("consequence") == true);
  }
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator(logs.path())) {
    if (entry.path().filename().string().starts_with("events-")) text += read_file(entry.path());
  }
  CHECK(text.find("the agent was killed by SIGKILL: ending the host, as configured") !=
        std::string::npos);
}

TEST_CASE("why: a torn record, and bytes that are none, cost nothing else") {
  StandingHost host;
  const auto& at = host.address();
  run_on(at, {"--name", "one"}, "exit 4");
  {
    std::ofstream log(log_of(host), std::ios::app | std::ios::binary);
    log << "{\"time\":\"torn\n"
        << std::string(300'000, 'x')
        << "\n{\"time_ns\":1,\"kind\":\"proc_ended\",\"rank\":\"no\"}\n\xff\xfe\n{\"time";
  }
  run_on(at, {"--name", "two"}, "exit 5");
  CHECK(why(at, {"one"}).at("first").at("end").at("exit_code") == 4);
  CHECK(why(at, {"two"}).at("first").at("end").at("exit_code") == 5);
}

}  // namespace meshbus::test::why_world
