// `meshbus run`: signals to the launcher (spec 12.3).
#include <doctest/doctest.h>

#include <csignal>
#include <map>

#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

/// A run whose ranks say "up PID" and become a sleep that nobody else has.
class SleepingRun {
 public:
  explicit SleepingRun(Words options = {}, const std::string& before = "")
      : sleep_(own_sleep()),
        process_(cli(words(std::move(options), before + " echo up $$; exec " + sleep_))) {}

  /// The pids of the ranks, once there are so many.
  std::vector<pid_t> wait_for_ranks(std::size_t count) {
    std::vector<pid_t> pids;
    const auto are_up = [&] {
      pids.clear();
      for (const std::string& line : lines_of(process_.out())) {
        if (const auto at = line.find(" up "); at != std::string::npos)
          pids.push_back(std::stoi(line.substr(at + 4)));
      }
      return pids.size() == count && process_.out().ends_with("\n");
    };
    INFO(process_.describe());
    REQUIRE(wait_until(are_up, in_time));
    return pids;
  }
  Process& process() { return process_; }
  std::vector<ProcessInfo> ranks() const { return sleepers(sleep_); }

 private:
  static Words words(Words options, const std::string& script) {
    options.insert(options.begin(), "run");
    options.insert(options.end(), {"--", "sh", "-c", script});
    return options;
  }
  std::string sleep_;
  Process process_;
};

void check_ends(SleepingRun& run, int code, std::chrono::milliseconds within) {
  INFO(run.process().describe());
  const auto took = time_until([&] { return !run.process().is_running(); }, within);
  CHECK_MESSAGE(took.has_value(), "still there after " << within.count() << " ms");
  CHECK(run.process().wait_exit(in_time) == ExitStatus::exited(code));
  CHECK(run.ranks().empty());
  CHECK(host_directories().empty());
}

char state_of(pid_t pid) {
  const auto found = find_process(pid);
  return found ? found->state : '-';
}

}  // namespace

TEST_CASE("cli: Ctrl-C ends the run in order, with 130; TERM and HUP with 143") {
  for (const auto& [signal, code] :
       std::map<int, int>{{SIGINT, 130}, {SIGTERM, 143}, {SIGHUP, 143}}) {
    CAPTURE(signal);
    SleepingRun run({"--hosts", "2", "-n", "4"});
    run.wait_for_ranks(4);
    run.process().send_signal(signal);
    check_ends(run, code, 15s);
  }
}

TEST_CASE("cli: ranks get the time to end in order after Ctrl-C, and what they say then is shown") {
  Process process(
      cli({"run", "-n", "2", "--no-prefix", "--", "sh", "-c",
           R"(trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done)"}));
  REQUIRE(wait_until([&] { return process.out() == "up\nup\n"; }, in_time));
  process.send_signal(SIGINT);
  CHECK(process.wait_exit(in_time) == ExitStatus::exited(130));
  CHECK(process.out() == "up\nup\nsaved\nsaved\n");
}

TEST_CASE("cli: a terminal's Ctrl-C reaches the whole group, and the ranks end once") {
  SleepingRun run({"-n", "2"});
  run.wait_for_ranks(2);
  run.process().send_signal_to_group(SIGINT);
  check_ends(run, 130, 15s);
}

TEST_CASE("cli: a second Ctrl-C does not wait for the grace") {
  SleepingRun run({"-n", "2", "--grace", "100s"}, "trap '' TERM INT;");
  const auto ranks = run.wait_for_ranks(2);
  run.process().send_signal(SIGINT);
  run.process().wait_for_output("stopping the mesh", in_time);
  CHECK_FALSE(is_gone(ranks[0]));
  CHECK_FALSE(is_gone(ranks[1]));
  run.process().send_signal(SIGINT);
  check_ends(run, 130, 10s);
}

TEST_CASE("cli: two signals at the same moment") {
  SleepingRun run({"-n", "2", "--grace", "100s"}, "trap '' TERM INT;");
  run.wait_for_ranks(2);
  run.process().send_signal(SIGINT);
  run.process().send_signal(SIGTERM);
  // Whichever is taken first; the kernel hands out the lower number.
  CHECK(run.process().wait_exit(in_time) == ExitStatus::exited(130));
  // Ranks may write before the launcher knows that all have started: then it does not wait, and the
  // host ends behind it.
  CHECK(wait_until([&] { return run.ranks().empty() && host_directories().empty(); }, in_time));
}

TEST_CASE("cli: a rank that ignores SIGTERM is killed when the grace is over") {
  SleepingRun run({"--grace", "500ms"}, "trap '' TERM INT HUP;");
  run.wait_for_ranks(1);
  run.process().send_signal(SIGTERM);
  check_ends(run, 143, 10s);
}

TEST_CASE("cli: Ctrl-C while the hosts are starting leaves nothing") {
  for (const bool has_roles : {false, true}) {
    SleepingRun run({"--hosts", "2"});
    const auto is_there = [&] {
      const auto wardens = wardens_of(run.process().pid());
      return !wardens.empty() && (!has_roles || !children_of(wardens.front()).empty());
    };
    REQUIRE(wait_until([&] { return is_there() || !run.process().is_running(); }, in_time));
    run.process().send_signal(SIGINT);
    CHECK(run.process().wait_exit(in_time) == ExitStatus::exited(130));
    CHECK(
        wait_until([&] { return run.ranks().empty() && host_directories().empty(); }, cleaned_up));
  }
}

TEST_CASE("cli: Ctrl-Z stops the ranks with the launcher, and fg lets all go on") {
  SleepingRun run({"-n", "2"});
  const auto ranks = run.wait_for_ranks(2);
  run.process().send_signal(SIGTSTP);
  INFO(run.process().describe());
  CHECK(wait_until(
      [&] {
        return state_of(ranks[0]) == 'T' && state_of(ranks[1]) == 'T' &&
               state_of(run.process().pid()) == 'T';
      },
      in_time));
  run.process().send_signal(SIGCONT);
  CHECK(wait_until(
      [&] {
        return state_of(ranks[0]) == 'S' && state_of(ranks[1]) == 'S' &&
               state_of(run.process().pid()) == 'S';
      },
      in_time));
  run.process().send_signal(SIGINT);
  check_ends(run, 130, 15s);
}

TEST_CASE("cli: a launcher that is stopped for longer than any heartbeat keeps its ranks") {
  SleepingRun run({"-n", "2", "--set", "heartbeat=50ms"});
  const auto ranks = run.wait_for_ranks(2);
  run.process().send_signal(SIGSTOP);
  CHECK_FALSE(wait_until([&] { return is_gone(ranks[0]) || is_gone(ranks[1]); }, 1500ms));
  run.process().send_signal(SIGCONT);
  run.process().send_signal(SIGUSR2);  // forwarded, which ends a sleep
  check_ends(run, 128 + SIGUSR2, 15s);
}

TEST_CASE("cli: a stopped run that is told to end ends, ranks too") {
  SleepingRun run({"-n", "2", "--grace", "2s"});
  const auto ranks = run.wait_for_ranks(2);
  run.process().send_signal(SIGTSTP);
  REQUIRE(wait_until(
      [&] {
        return state_of(ranks[0]) == 'T' && state_of(ranks[1]) == 'T' &&
               state_of(run.process().pid()) == 'T';
      },
      in_time));
  // What a shell does when it exits with a stopped job.
  run.process().send_signal(SIGHUP);
  run.process().send_signal(SIGCONT);
  check_ends(run, 143, 15s);
}

TEST_CASE("cli: USR1 and USR2 are forwarded to the ranks") {
  Process process(cli({"run", "-n", "2", "--no-prefix", "--", "sh", "-c",
                       "trap 'echo got USR1' USR1; trap 'echo got USR2; exit 0' USR2; echo up; "
                       "while :; do sleep 100 & wait; done"}));
  REQUIRE(wait_until([&] { return process.out() == "up\nup\n"; }, in_time));
  process.send_signal(SIGUSR1);
  CHECK(wait_until([&] { return process.out() == "up\nup\ngot USR1\ngot USR1\n"; }, in_time));
  process.send_signal(SIGUSR2);
  CHECK(process.wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(process.out() == "up\nup\ngot USR1\ngot USR1\ngot USR2\ngot USR2\n");
}

namespace {

/// A process that does nothing until this object goes.
class Stopped {
 public:
  explicit Stopped(pid_t pid) : pid_(pid) { REQUIRE(::kill(pid, SIGSTOP) == 0); }
  ~Stopped() { ::kill(pid_, SIGCONT); }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;

 private:
  pid_t pid_;
};

}  // namespace

TEST_CASE(
    "cli: a run whose own agent is frozen ends by Ctrl-C with 130, says what was not done, and "
    "leaves nothing") {
  SleepingRun run({"-n", "2", "--grace", "100ms"});
  run.wait_for_ranks(2);
  const auto wardens = wardens_of(run.process().pid());
  REQUIRE(wardens.size() == 1);
  const auto roles = find_roles(wardens.front());
  REQUIRE(roles.has_value());
  const Stopped agent(roles->agent);
  run.process().send_signal(SIGINT);
  CHECK(run.process().wait_exit(in_time) == ExitStatus::exited(130));
  INFO(run.process().err());
  CHECK(wait_until([&] { return run.ranks().empty() && host_directories().empty(); }, cleaned_up));
  CHECK(run.process().err().find("ranks 0-1 not stopped: host ") != std::string::npos);
  CHECK(run.process().err().find("does not answer; they end with their host, now") !=
        std::string::npos);
  CHECK(run.process().err().find("SIGKILL") == std::string::npos);
}

TEST_CASE(
    "cli: a run on a standing host whose agent is frozen waits for it after Ctrl-C, and ends with "
    "its ranks") {
  StandingHost host;
  SleepingRun run({"--hosts", host.address(), "-n", "2", "--grace", "100ms"});
  run.wait_for_ranks(2);
  {
    const Stopped agent(host.roles().agent);
    run.process().send_signal(SIGINT);
    const auto is_told = [&] {
      return run.process().err().find("waiting until its host finds out what is wrong there") !=
             std::string::npos;
    };
    CHECK(wait_until([&] { return is_told() || !run.process().is_running(); }, in_time));
    INFO(run.process().describe());
    CHECK(is_told());
    CHECK(run.process().is_running());
  }
  CHECK(run.process().wait_exit(in_time) == ExitStatus::exited(130));
  CHECK(run.ranks().empty());
}

TEST_CASE("cli: another Ctrl-C does not wait for a standing host that does not answer") {
  StandingHost host;
  SleepingRun run({"--hosts", host.address(), "-n", "2", "--grace", "100ms"});
  run.wait_for_ranks(2);
  const Stopped agent(host.roles().agent);
  for (const auto* words : {"Ctrl-C: stopping the mesh", "waiting until its host", "giving up"}) {
    run.process().send_signal(SIGINT);
    CHECK(
        wait_until([&] { return run.process().err().find(words) != std::string::npos; }, in_time));
  }
  INFO(run.process().describe());
  CHECK(run.process().wait_exit(in_time) == ExitStatus::exited(130));
  CHECK(run.process().err().find("giving up: they may live on") != std::string::npos);
}
