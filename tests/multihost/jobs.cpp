// `meshbus run` on several hosts, and what it says when one of them is in trouble.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <sstream>

#include "tests/multihost/site.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

Words sorted_lines(const std::string& text) {
  Words lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

/// A job of two ranks on each host, which stand until somebody makes the file `go` in the room of
/// their host.
class StandingJob {
 public:
  StandingJob(const Site& site, const Words& options)
      : process_(site.desk().start(words(site, options))) {
    wait_until([this] { return lines() == 6 || !process_.is_running(); }, in_time);
    INFO(process_.describe());
    REQUIRE(lines() == 6);
  }
  Process& process() { return process_; }
  /// How long it took until it had said that on stderr, or nothing.
  std::optional<std::chrono::milliseconds> time_until_said(const std::string& text,
                                                           std::chrono::milliseconds deadline) {
    const auto start = std::chrono::steady_clock::now();
    const auto is_said = [&] { return process_.err().find(text) != std::string::npos; };
    if (!wait_until([&] { return is_said() || !process_.is_running(); }, deadline) || !is_said())
      return std::nullopt;
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                 start);
  }
  static constexpr const char* mark = "stands-until-go";

 private:
  static Words words(const Site& site, const Words& options) {
    Words all = {"--per-host", "gpus=2", "--no-prefix"};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(),
               {"--", "sh", "-c",
                "echo up; until [ -e $TMPDIR/go ]; do sleep 0.05; done; echo down", mark});
    return site.run_words(all);
  }
  long lines() const { return std::count(process_.out().begin(), process_.out().end(), '\n'); }

  Process process_;
};

/// The launcher names the host in trouble in time.
void check_named(StandingJob& job, const std::string& address, const std::string& trouble) {
  const auto said = job.time_until_said(address, told_in_time + busy);
  {
    INFO(job.process().describe());
    CHECK(said.has_value());
  }
  if (said) MESSAGE(trouble << ": named after " << said->count() << " ms");
}

/// Waits for the end of a job whose host is lost and checks it.
void check_lost(StandingJob& job, Site& site, std::size_t lost,
                std::chrono::milliseconds deadline) {
  const auto start = std::chrono::steady_clock::now();
  const ExitStatus status = job.process().wait_exit(deadline);
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  const Words words = [&] {
    Words all;
    std::istringstream in(job.process().err());
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }();
  MESSAGE("it ended " << took.count() << " ms later and said:\n" << job.process().err());
  INFO(job.process().err());
  CHECK(status == ExitStatus::exited(123));
  CHECK(job.process().err().find("host lost: " + site.address(lost)) != std::string::npos);
  REQUIRE_FALSE(words.empty());
  CHECK(words.back().starts_with("meshbus: first failure: rank " + std::to_string(2 * lost)));
  for (std::size_t i = 0; i < 3; ++i) {
    if (i == lost) continue;
    // No other host is taken for lost.
    CHECK(job.process().err().find("host lost: " + site.address(i)) == std::string::npos);
    CHECK(site.procs_on(i, StandingJob::mark).empty());
  }
}

}  // namespace

TEST_CASE(
    "multihost: a job on three hosts has the right ranks on the right hosts, its output and its "
    "exit code") {
  Site site(3);
  const auto finished = site.desk().run(
      site.run_words(
          {"--per-host", "gpus=2", "--no-prefix", "--", "sh", "-c",
           "echo $RANK $LOCAL_RANK $NODE_RANK $WORLD_SIZE $(hostname) $MESHBUS_RANK_GPUS"}),
      in_time);
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(sorted_lines(finished.out) == Words{"0 0 0 6 host0 0", "1 1 0 6 host0 1", "2 0 1 6 host1 0",
                                            "3 1 1 6 host1 1", "4 0 2 6 host2 0",
                                            "5 1 2 6 host2 1"});
  CHECK(finished.err == "");
  MESSAGE("a job of 6 ranks on 3 hosts took " << finished.elapsed.count() << " ms");

  const auto failed = site.desk().run(
      site.run_words({"--per-host", "gpus=2", "--", "sh", "-c",
                      "if [ $RANK = 3 ]; then echo no >&2; exit 7; fi; exec sleep 600"}),
      in_time);
  INFO(failed.err);
  CHECK(failed.status == ExitStatus::exited(7));
  CHECK(failed.err.find("first failure: rank 3") != std::string::npos);
  for (std::size_t i = 0; i < 3; ++i) CHECK(site.procs_on(i, "sleep 600").empty());
}

TEST_CASE(
    "multihost: a host whose power goes in the middle of a job is named at once and lost after the "
    "limit") {
  Site site(3);
  for (const std::size_t victim : {std::size_t{1}, std::size_t{0}}) {
    CAPTURE(victim);
    StandingJob job(site, {"--set", "delivery.limit=5s"});
    site.lab.power_off(victim);
    check_named(job, site.address(victim), "host " + std::to_string(victim) + " without power");
    check_lost(job, site, victim, 30s);
    site.lab.boot(victim);
    site.start_host(victim);
    site.wait_ready(victim);
  }
  CHECK(site.desk().run(site.run_words({"--", "true"}), in_time).status == ExitStatus::exited(0));
}

TEST_CASE("multihost: a cut between two hosts that heals in time costs a job nothing") {
  Site site(3);
  StandingJob job(site, {});
  site.lab.cut(0, 1);
  check_named(job, site.address(1), "a host that was cut off");
  site.lab.heal(0, 1);
  CHECK(job.time_until_said("host " + site.address(1) + " answers again", in_time).has_value());
  for (std::size_t i = 0; i < 3; ++i)
    site.lab.host(i).run({"sh", "-c", "touch $TMPDIR/go"}, in_time);
  CHECK(job.process().wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(sorted_lines(job.process().out()) ==
        Words{"down", "down", "down", "down", "down", "down", "up", "up", "up", "up", "up", "up"});
}

TEST_CASE(
    "multihost: output that was written during a cut arrives, or the launcher says that some is "
    "missing") {
  Site site(3);
  StandingJob job(site, {});
  site.lab.cut(0, 1);
  check_named(job, site.address(1), "a host that was cut off");
  for (std::size_t i = 0; i < 3; ++i)
    site.lab.host(i).run({"sh", "-c", "touch $TMPDIR/go"}, in_time);
  CHECK(wait_until([&] { return site.procs_on(1, StandingJob::mark).empty(); }, in_time));
  site.lab.heal(0, 1);
  CHECK(job.process().wait_exit(in_time) == ExitStatus::exited(0));
  const auto lines = sorted_lines(job.process().out());
  INFO(job.process().describe());
  const bool is_whole = std::count(lines.begin(), lines.end(), "down") == 6;
  CHECK((is_whole || job.process().err().find("its output") != std::string::npos));
  MESSAGE("output written during a cut: " << std::count(lines.begin(), lines.end(), "down")
                                          << " of 6 lines came");
}

TEST_CASE("multihost: a cut that stays loses the host, and its ranks end when their lease does") {
  Site site(3);
  StandingJob job(site, {"--set", "delivery.limit=5s", "--set", "lease=8s"});
  site.lab.cut(0, 1);
  site.lab.cut(3, 1);
  const auto start = std::chrono::steady_clock::now();
  check_lost(job, site, 1, 30s);
  CHECK(wait_until([&] { return site.procs_on(1, StandingJob::mark).empty(); }, 30s));
  MESSAGE("the ranks on the host that was cut off were gone after "
          << std::chrono::duration_cast<std::chrono::milliseconds>(
                 std::chrono::steady_clock::now() - start)
                 .count()
          << " ms");
  site.lab.heal();
  CHECK(wait_until(
      [&] {
        return site.desk().run(site.run_words({"--", "true"}), in_time).status ==
               ExitStatus::exited(0);
      },
      in_time));
}

TEST_CASE("multihost: a frozen host is named at once; a job whose host thaws in time goes on") {
  Site site(3);
  StandingJob job(site, {});
  site.lab.freeze(2);
  check_named(job, site.address(2), "a frozen host");
  site.lab.thaw(2);
  CHECK(job.time_until_said("host " + site.address(2) + " answers again", in_time).has_value());
  for (std::size_t i = 0; i < 3; ++i)
    site.lab.host(i).run({"sh", "-c", "touch $TMPDIR/go"}, in_time);
  CHECK(job.process().wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(sorted_lines(job.process().out()) ==
        Words{"down", "down", "down", "down", "down", "down", "up", "up", "up", "up", "up", "up"});
}

TEST_CASE("multihost: a host that stays frozen is lost; its ranks end when it thaws") {
  Site site(3);
  StandingJob job(site, {"--set", "delivery.limit=5s"});
  site.lab.freeze(2);
  check_lost(job, site, 2, 30s);
  site.lab.thaw(2);
  CHECK(wait_until([&] { return site.procs_on(2, StandingJob::mark).empty(); }, 30s));
  CHECK(wait_until(
      [&] {
        return site.desk().run(site.run_words({"--", "true"}), in_time).status ==
               ExitStatus::exited(0);
      },
      in_time));
}
