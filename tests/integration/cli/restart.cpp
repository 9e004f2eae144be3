// `meshbus run --restart` (spec 8.9): which ranks begin a new life, when, and what is told of it.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <set>

#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

namespace {

/// `meshbus run` of a script of sh, restarted quickly.
Words restarting(const std::string& policy, Words options, const std::string& script) {
  Words words{"run", "--no-prefix", "--restart", policy};
  if (std::find(options.begin(), options.end(), "--restart-delay") == options.end())
    options.insert(options.end(), {"--restart-delay", "50ms:100ms"});
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", "sh", "-c", script});
  return words;
}

/// Nobody else has this lock: not another life of this rank, nor what one has left behind.
/// Descendants hold it too.
std::string lock(const TempDir& dir) {
  return "exec 9>" + (dir / "lock.$RANK") +
         "; flock -n 9 || { echo TWO LIVES AT ONCE; exit 99; }; ";
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

json of_rank(const json& list, int rank, int restarts) {
  for (const auto& one : list) {
    if (one.at("rank") == rank && one.at("restarts") == restarts) return one;
  }
  FAIL("no life " << restarts << " of rank " << rank << " in " << list.dump(2));
  return list;
}

}  // namespace

TEST_CASE(
    "cli: --restart on-failure: a rank that fails twice and then succeeds is no failure, and each "
    "life is told") {
  const TempDir dir;
  const auto finished = run_cli(restarting("on-failure:3", {"-n", "2", "--json", dir / "report"},
                                           "echo life $MESHBUS_RESTARTS of $RANK; if [ $RANK = 1 ] "
                                           "&& [ $MESHBUS_RESTARTS -lt 2 ]; then echo "
                                           "oh $MESHBUS_RESTARTS >&2; exit 3; fi"));
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(sorted(lines_of(finished.out)) ==
        Words{"life 0 of 0", "life 0 of 1", "life 1 of 1", "life 2 of 1"});
  CHECK(count(finished.err, "): exit 3; it is started anew in 0.") == 2);
  CHECK(count(finished.err, " s (restart 1 of 3)\n") == 1);
  CHECK(count(finished.err, " s (restart 2 of 3)\n") == 1);
  CHECK(count(finished.err, "failure") == 0);
  const auto report = parse_json(read_file(dir / "report"));
  INFO(report.dump(2));
  CHECK(report.at("exit_code") == 0);
  CHECK(report.at("first_failure").is_null());
  CHECK(report.at("ranks")[0].at("restarts") == 0);
  CHECK(report.at("ranks")[1].at("restarts") == 2);
  CHECK(report.at("ranks")[1].at("exit_code") == 0);
  REQUIRE(report.at("former_lives").size() == 2);
  std::set<json> pids{report.at("ranks")[1].at("pid")};
  for (int life = 0; life < 2; ++life) {
    const auto former = of_rank(report.at("former_lives"), 1, life);
    pids.insert(former.at("pid"));
    CHECK(former.at("exit_code") == 3);
    CHECK(former.at("reason") == "exit 3");
    CHECK(former.at("stderr_tail") == json::array({"oh " + std::to_string(life)}));
  }
  CHECK(pids.size() == 3);
}

TEST_CASE(
    "cli: --restart: the failure that the budget does not answer decides, and is told first") {
  const auto sleep = own_sleep();
  const auto finished =
      run_cli(restarting("on-failure:2", {"-n", "2"},
                         "if [ $RANK = 1 ]; then exec " + sleep +
                             "; fi; echo life $MESHBUS_RESTARTS; exit $((10 + MESHBUS_RESTARTS))"));
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(12));
  CHECK(lines_of(finished.out) == Words{"life 0", "life 1", "life 2"});
  CHECK(count(finished.err, "it is started anew") == 2);
  CHECK(finished.err.find("rank 0 had been started anew 2 times\n") != std::string::npos);
  CHECK(last_line(finished.err).starts_with("meshbus: first failure: rank 0 ("));
  CHECK(last_line(finished.err).ends_with("): exit 12"));
  CHECK(finished.err.find("stopped because of it: rank 1\n") != std::string::npos);
  CHECK(sleepers(sleep).empty());
}

TEST_CASE(
    "cli: --gang all: no rank begins anew before all that the former lives have left is gone") {
  const TempDir dir;
  const auto sleep = own_sleep();
  // In its first life each rank leaves a process that knows no SIGTERM, in another session, with
  // the lock in its hands.
  const auto finished = run_cli(
      restarting("on-failure:1",
                 {"--hosts", "2", "--per-host", "gpu=2", "--gang", "all", "--grace", "5s", "--json",
                  dir / "report"},
                 lock(dir) +
                     "echo life $MESHBUS_RESTARTS of $RANK; if [ $MESHBUS_RESTARTS = 1 ]; then "
                     "exit 0; fi; setsid sh -c \"trap '' TERM; touch " +
                     (dir / "up.$RANK") + "; " + sleep + "; " + sleep +
                     "\" & if [ $RANK = 1 ]; then until [ -e " + (dir / "up.0") + " ] && [ -e " +
                     (dir / "up.1") + " ] && [ -e " + (dir / "up.2") + " ] && [ -e " +
                     (dir / "up.3") + " ]; do sleep 0.05; done; kill -9 $$; fi; exec " + sleep));
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(sorted(lines_of(finished.out)) == Words{"life 0 of 0", "life 0 of 1", "life 0 of 2",
                                                "life 0 of 3", "life 1 of 0", "life 1 of 1",
                                                "life 1 of 2", "life 1 of 3"});
  CHECK(count(finished.err, "; ranks 0-3 are started anew in ") == 1);
  CHECK(sleepers(sleep).empty());
  const auto report = parse_json(read_file(dir / "report"));
  INFO(report.dump(2));
  REQUIRE(report.at("former_lives").size() == 4);
  CHECK(of_rank(report.at("former_lives"), 1, 0).at("signal") == SIGKILL);
  for (const int rank : {0, 2, 3}) {
    const auto former = of_rank(report.at("former_lives"), rank, 0);
    CHECK(former.at("because") == 1);
    CHECK(former.at("consequence") == true);
    CHECK(former.at("stop").at("reason").get<std::string>().starts_with(
        "to be started anew with rank 1: killed by SIGKILL"));
  }
}

TEST_CASE("cli: --gang rest: the failed rank and all after it") {
  const TempDir dir;
  const auto finished = run_cli(restarting(
      "on-failure:1", {"-n", "4", "--gang", "rest"},
      lock(dir) + "echo life $MESHBUS_RESTARTS of $RANK; touch " +
          (dir / "up.$RANK.$MESHBUS_RESTARTS") +
          "; if [ $RANK = 2 ] && [ $MESHBUS_RESTARTS = 0 ]; then until [ -e " + (dir / "up.3.0") +
          " ]; do sleep 0.05; done; exit 5; fi; until [ -e " + (dir / "up.2.1") + " ] && [ -e " +
          (dir / "up.3.1") + " ]; do sleep 0.05; done"));
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(sorted(lines_of(finished.out)) == Words{"life 0 of 0", "life 0 of 1", "life 0 of 2",
                                                "life 0 of 3", "life 1 of 2", "life 1 of 3"});
  CHECK(count(finished.err, "; ranks 2-3 are started anew in ") == 1);
}

TEST_CASE("cli: --restart always answers an exit 0, on-failure does not") {
  const auto always = run_cli(restarting("always:2", {}, "echo life $MESHBUS_RESTARTS"));
  INFO(always.err);
  CHECK(always.status == ExitStatus::exited(0));
  CHECK(lines_of(always.out) == Words{"life 0", "life 1", "life 2"});
  CHECK(count(always.err, "): exit 0; it is started anew") == 2);
  const auto on_failure = run_cli(restarting("on-failure", {}, "echo life $MESHBUS_RESTARTS"));
  CHECK(on_failure.status == ExitStatus::exited(0));
  CHECK(lines_of(on_failure.out) == Words{"life 0"});
  CHECK(on_failure.err.empty());
}

TEST_CASE("cli: --restart: a signal is answered, other codes than --restart-codes are not") {
  const auto script =
      "echo life $MESHBUS_RESTARTS; if [ $MESHBUS_RESTARTS = 0 ]; then kill -9 $$; fi; exit 4";
  const auto finished = run_cli(restarting("on-failure:5", {"--restart-codes", "75,137"}, script));
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(4));
  CHECK(lines_of(finished.out) == Words{"life 0", "life 1"});
  CHECK(count(finished.err, "killed by SIGKILL") == 1);
}

TEST_CASE("cli: --restart: what cannot be executed is not tried again") {
  const auto finished = run_cli({"run", "--restart", "always", "--", "/no/such/file"});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(127));
  CHECK(count(finished.err, "started anew") == 0);
}

TEST_CASE(
    "cli: --restart: a stop between two lives ends the run at once, and no life begins after it") {
  Process run(cli(
      restarting("on-failure", {"--restart-delay", "1h"}, "echo life $MESHBUS_RESTARTS; exit 3")));
  run.wait_for_output("it is started anew in ", in_time);
  const auto begin = std::chrono::steady_clock::now();
  run.send_signal(SIGTERM);
  CHECK(run.wait_exit(in_time) == ExitStatus::exited(143));
  INFO(run.describe());
  MESSAGE("from SIGTERM to the end: ",
          std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                begin)
              .count(),
          " ms");
  CHECK(lines_of(run.out()) == Words{"life 0"});
  CHECK(host_directories().empty());
}

TEST_CASE("cli: --restart: a launcher that is killed between two lives leaves nothing") {
  Process run(cli(restarting("on-failure", {"--restart-delay", "1h"}, "exit 3")));
  run.wait_for_output("it is started anew in ", in_time);
  run.send_signal(SIGKILL);
  CHECK(run.wait_exit(in_time) == ExitStatus::killed_by(SIGKILL));
  CHECK(wait_until([] { return host_directories().empty(); }, in_time));
}

TEST_CASE("cli: --restart: wrong usage") {
  CHECK(run_cli({"run", "--restart", "sometimes", "--", "true"}).status == ExitStatus::exited(2));
  CHECK(run_cli({"run", "--restart", "never:2", "--", "true"}).status == ExitStatus::exited(2));
  CHECK(run_cli({"run", "--restart", "always:x", "--", "true"}).status == ExitStatus::exited(2));
  CHECK(run_cli({"run", "--gang", "all", "--", "true"}).status == ExitStatus::exited(2));
  CHECK(run_cli({"run", "--restart", "always", "--gang", "some", "--", "true"}).status ==
        ExitStatus::exited(2));
  CHECK(run_cli({"run", "--restart", "always", "--restart-delay", "2s:1s", "--", "true"}).status ==
        ExitStatus::exited(2));
}

TEST_CASE(
    "cli: --restart --gang all: watch and logs -f go on between two lives of the whole mesh, and "
    "end with its launcher") {
  StandingHost host;
  const TempDir dir;
  const std::string script = "echo life-$MESHBUS_RESTARTS-of-$RANK; until [ -e " +
                             (dir / "go.$MESHBUS_RESTARTS") +
                             " ]; do sleep 0.05; done; [ $MESHBUS_RESTARTS = 1 ] || exit 3";
  auto words = restarting("on-failure:1",
                          {"--hosts", host.address(), "-n", "2", "--gang", "all", "--name", "work",
                           "--restart-delay", "1s"},
                          script);
  Process job(cli(words));
  REQUIRE(wait_until([&] { return count(job.out(), "life-0") == 2; }, in_time));
  Process watch(cli({"watch", "work", "--hosts", host.address()}));
  Process logs(cli({"logs", "work", "-f", "--hosts", host.address()}));
  REQUIRE(wait_until(
      [&] { return count(watch.out(), ": ready, pid ") == 2 && count(logs.out(), "life-0") == 2; },
      in_time));
  std::ofstream(dir / "go.0").put('\n');
  const bool are_there = wait_until(
      [&] { return count(watch.out(), ": ready, pid ") == 4 && count(logs.out(), "life-1") == 2; },
      in_time);
  INFO(job.describe() << watch.describe() << logs.describe());
  REQUIRE(are_there);
  CHECK(count(watch.out(), "has ended") == 0);
  CHECK(watch.is_running());
  CHECK(logs.is_running());
  std::ofstream(dir / "go.1").put('\n');
  CHECK(job.wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(watch.wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(count(watch.out(), "has ended") == 1);
  CHECK(logs.wait_exit(in_time) == ExitStatus::exited(0));
}
