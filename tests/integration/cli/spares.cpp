// `meshbus run --use` and `--min-hosts` with hosts on this machine (spec 18.1).
#include <doctest/doctest.h>

#include <csignal>
#include <optional>

#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

namespace {

/// Ranks that stand in the first attempt, and say in the next one that they went on.
const Words kStand = {"--", "sh", "-c",
                      "if [ $MESHBUS_JOB_ATTEMPT = 0 ]; then echo stands; exec sleep 600; fi; "
                      "echo rank $RANK of $WORLD_SIZE went on"};

Words run_words(const Words& options) {
  Words words = {"run", "--no-prefix"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), kStand.begin(), kStand.end());
  return cli(words);
}

std::size_t count_words(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("cli: run --use goes on with a spare when a host is killed, at once") {
  const TempDir dir;
  const auto report = dir / "report.json";
  Process job(run_words({"--hosts", "3", "--use", "2", "-n", "4", "--json", report}));
  CHECK(wait_until([&] { return count_words(job.out(), "stands") == 4; }, in_time));
  // One that has ranks, and not the spare.
  std::optional<Roles> victim;
  for (const pid_t warden : wardens_of(job.pid())) {
    const auto roles = find_roles(warden);
    if (roles && !children_of(roles->keeper).empty()) victim = roles;
  }
  REQUIRE(victim.has_value());
  SUBCASE("its warden is killed") {
    ::kill(victim->warden, SIGKILL);
  }
  SUBCASE("its keeper is killed") {
    ::kill(victim->keeper, SIGKILL);
  }
  SUBCASE("it ends in order") {
    ::kill(victim->warden, SIGTERM);
  }
  const auto status = job.wait_exit(in_time);
  INFO(job.describe());
  CHECK(status == ExitStatus::exited(0));
  CHECK(count_words(job.out(), "of 4 went on") == 4);
  CHECK(job.err().find("attempt 2 of the job on 2 hosts, 0 hosts to spare") != std::string::npos);
  // Its end is proved: nobody waits for its lease.
  CHECK(job.err().find("waiting until the lease") == std::string::npos);
  const auto told = parse_json(read_file(report));
  CHECK(told.at("exit_code") == 0);
  REQUIRE(told.at("attempts").size() == 1);
  CHECK(told.at("attempts")[0].at("lost_hosts").size() == 1);
}

TEST_CASE("cli: run --min-hosts goes on with the hosts that are left, and -n ranks on fewer") {
  Process job(run_words({"--hosts", "2", "--min-hosts", "1", "-n", "4"}));
  CHECK(wait_until([&] { return count_words(job.out(), "stands") == 4; }, in_time));
  const auto wardens = wardens_of(job.pid());
  REQUIRE(wardens.size() == 2);
  ::kill(wardens[0], SIGKILL);
  const auto status = job.wait_exit(in_time);
  INFO(job.describe());
  CHECK(status == ExitStatus::exited(0));
  CHECK(count_words(job.out(), "of 4 went on") == 4);
}

TEST_CASE("cli: run --use moves from a host that is drained, and to it when it is resumed") {
  const StandingHost hosts[3];
  std::string list;
  for (const auto& host : hosts) list += (list.empty() ? "" : ",") + host.address();
  const TempDir dir;
  const auto report = dir / "report.json";
  Process job(cli({"run", "--no-prefix", "--hosts", list, "--use", "2", "-n", "2", "--grace", "1s",
                   "--json", report, "--", "sh", "-c",
                   "echo attempt $MESHBUS_JOB_ATTEMPT stands; "
                   "[ $MESHBUS_JOB_ATTEMPT = 2 ] || exec sleep 600"}));
  const auto drain = [](const std::string& host) {
    const auto done = run_cli({"drain", "--hold", "--reason", "new kernel", "--hosts", host});
    INFO(done.err);
    CHECK(done.status == ExitStatus::exited(0));
  };
  CHECK(wait_until([&] { return count_words(job.out(), "attempt 0 stands") == 2; }, in_time));
  drain(hosts[1].address());
  CHECK(wait_until([&] { return count_words(job.out(), "attempt 1 stands") == 2; }, in_time));
  CHECK(run_cli({"drain", "--resume", "--hosts", hosts[1].address()}).status ==
        ExitStatus::exited(0));
  drain(hosts[0].address());
  const auto status = job.wait_exit(in_time);
  INFO(job.describe());
  CHECK(status == ExitStatus::exited(0));
  CHECK(count_words(job.out(), "attempt 2 stands") == 2);
  CHECK(job.err().find("host " + hosts[1].address() + " is drained by ") != std::string::npos);
  CHECK(job.err().find(": new kernel: attempt 2 of the job on 2 hosts, 0 hosts to spare") !=
        std::string::npos);
  const auto attempts = parse_json(read_file(report)).at("attempts");
  REQUIRE(attempts.size() == 2);
  CHECK(attempts[0].at("lost_hosts").empty());
  CHECK(attempts[0].at("drained_hosts") == json({hosts[1].address()}));
  CHECK(attempts[1].at("drained_hosts") == json({hosts[0].address()}));

  // One that is held before the job begins is left out; without a spare the job ends as before.
  const auto there = run_cli({"run", "--hosts", list, "--use", "2", "--", "true"});
  INFO(there.err);
  CHECK(there.status == ExitStatus::exited(0));
  CHECK(there.err.find("host " + hosts[0].address() + " is drained by ") != std::string::npos);
  CHECK(there.err.find(": new kernel: it is left out") != std::string::npos);
  Process last(cli({"run", "--hosts", list, "--use", "2", "-n", "2", "--", "sh", "-c",
                    "echo stands; exec sleep 600"}));
  CHECK(wait_until([&] { return count_words(last.out(), "stands") == 2; }, in_time));
  drain(hosts[1].address());
  CHECK(last.wait_exit(in_time) == ExitStatus::exited(143));
  CHECK(last.err().find("attempt") == std::string::npos);
}

TEST_CASE("cli: run with spares ends with the failure of a rank as without") {
  const auto finished = run_cli({"run", "--hosts", "2", "--use", "1", "--", "sh", "-c", "exit 5"});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(5));
  CHECK(finished.err.find("attempt") == std::string::npos);
}

TEST_CASE("cli: run refuses spares that cannot be") {
  const auto refused = [](const Words& options, const std::string& words) {
    Words all = {"run"};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--", "true"});
    const auto finished = run_cli(all);
    INFO(finished.err);
    CHECK(finished.status == ExitStatus::exited(2));
    CHECK(finished.err.find(words) != std::string::npos);
  };
  refused({"--hosts", "2", "--use", "3"}, "--use 3: there are only 2 hosts");
  refused({"--hosts", "4", "--use", "2", "--min-hosts", "3"},
          "--min-hosts 3 is more than the 2 hosts that the job uses");
  refused({"--hosts", "2", "--use", "1", "--keep-going"}, "one or the other");
  refused({"--hosts", "2", "--use", "1", "--set", "lease=0s"}, "need a lease");
  refused({"--hosts", "2", "--use", "0"}, "--use");
}
