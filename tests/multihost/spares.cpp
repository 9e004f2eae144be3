// A job that loses a host and goes on with a spare (spec 18.1).
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <csignal>
#include <fstream>

#include "tests/multihost/site.h"
#include "tests/support/temp_dir.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

constexpr const char* kMark = "spare-rank";
/// A lease that is over soon, and a host that is lost sooner.
const Words kSoon = {"--set", "delivery.limit=4s", "--set", "lease=6s", "--grace", "1s"};

/// A job of two ranks on each of the hosts that it uses. A rank holds the lock of its number as
/// long as it runs, ends with 9 when another process has it, stands in its first attempt, and ends
/// with 0 in the second one.
class SpareJob {
 public:
  SpareJob(const Site& site, std::size_t hosts, const Words& options)
      : process_(site.desk().start(words(site, options))) {
    wait_until([&] { return lines("stands") == 2 * hosts || !process_.is_running(); }, in_time);
    INFO(process_.describe());
    REQUIRE(lines("stands") == 2 * hosts);
  }
  Process& process() { return process_; }
  std::size_t lines(const std::string& word) const {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = process_.out().find(word, at)) != std::string::npos; ++at)
      ++count;
    return count;
  }
  nlohmann::json report() const { return nlohmann::json::parse(read_file(locks_ / "report.json")); }

 private:
  Words words(const Site& site, const Words& options) const {
    Words all = {"--per-host", "gpus=2", "--json", locks_ / "report.json"};
    all.insert(all.end(), kSoon.begin(), kSoon.end());
    all.insert(all.end(), options.begin(), options.end());
    const Words command = {"--",
                           "sh",
                           "-c",
                           "exec 9>>\"$1/rank$RANK\"; flock -n 9 || exit 9\n"
                           "if [ $MESHBUS_JOB_ATTEMPT = 0 ]; then\n"
                           "  echo stands; while :; do sleep 0.05; done\n"
                           "fi\n"
                           "echo went on in a world of $WORLD_SIZE, attempt $MESHBUS_JOB_ATTEMPT",
                           kMark,
                           locks_.path().string()};
    all.insert(all.end(), command.begin(), command.end());
    return site.run_words(all);
  }

  TempDir locks_;
  Process process_;
};

void check_went_on(SpareJob& job, const Site& site, std::size_t lost, std::size_t ranks) {
  const auto start = std::chrono::steady_clock::now();
  const auto status = job.process().wait_exit(in_time);
  INFO(job.process().describe());
  CHECK(status == ExitStatus::exited(0));
  CHECK(job.lines("went on in a world of " + std::to_string(ranks) + ", attempt 1") == ranks);
  CHECK(job.process().err().find("attempt 2 of the job") != std::string::npos);
  const auto attempts = job.report().at("attempts");
  REQUIRE(attempts.size() == 1);
  CHECK(attempts[0].at("lost_hosts") == nlohmann::json::array({site.address(lost)}));
  MESSAGE("the job ended " << std::chrono::duration_cast<std::chrono::milliseconds>(
                                  std::chrono::steady_clock::now() - start)
                                  .count()
                           << " ms after the trouble");
}

}  // namespace

TEST_CASE("multihost: a job whose host is cut off goes on with a spare, and no rank runs twice") {
  Site site(4);
  SpareJob job(site, 3, {"--use", "3"});
  for (const std::size_t other : std::to_array<std::size_t>({0, 2, 3, 4})) site.lab.cut(1, other);
  check_went_on(job, site, 1, 6);
  // The ranks of the lost host end with their lease, before the next attempt began.
  CHECK(site.procs_on(1, kMark).empty());
  site.lab.heal();
}

TEST_CASE("multihost: a job whose host loses its power goes on with a spare") {
  Site site(3);
  SpareJob job(site, 2, {"--use", "2"});
  site.lab.power_off(0);
  check_went_on(job, site, 0, 4);
}

TEST_CASE("multihost: a job without a spare goes on smaller if it says so, and else ends") {
  Site site(3);
  SUBCASE("it says so") {
    SpareJob job(site, 3, {"--min-hosts", "2"});
    site.lab.power_off(2);
    check_went_on(job, site, 2, 4);
  }
  SUBCASE("too few are left") {
    SpareJob job(site, 2, {"--use", "2", "--min-hosts", "2"});
    site.lab.power_off(2);
    site.lab.power_off(1);
    const auto status = job.process().wait_exit(in_time);
    INFO(job.process().describe());
    // The spare has no power either: that is found when the next attempt looks for it.
    CHECK(status != ExitStatus::exited(0));
    CHECK(job.process().err().find("too few hosts are left for another attempt: 1 of 3") !=
          std::string::npos);
  }
}

namespace {

/// Ranks of the first attempt stand until there is a file `go`, and so do those of later ones; each
/// holds the lock of its number meanwhile, and ends with 9 when another process has it.
const Words kHolding = {"--", "sh", "-c",
                        "exec 9>>\"$1/rank$RANK\"; flock -n 9 || exit 9\n"
                        "echo rank $RANK attempt $MESHBUS_RESTARTS stands\n"
                        "while [ ! -e \"$1/go\" ]; do sleep 0.05 9>&-; done",
                        kMark};

}  // namespace

TEST_CASE(
    "multihost: spec 18.1: with --gang one the ranks of a host that is cut off move when its lease "
    "is over, and the others run on") {
  Site site(4);
  const TempDir dir;
  Words words = {"--use",        "3",      "--per-host", "gpus=2", "--restart",
                 "on-failure:1", "--gang", "one",        "--json", dir / "report.json"};
  words.insert(words.end(), kSoon.begin(), kSoon.end());
  words.insert(words.end(), kHolding.begin(), kHolding.end());
  words.push_back(dir.path().string());
  Process job(site.desk().start(site.run_words(words)));
  const auto stand = [&](int attempt) {
    std::size_t count = 0;
    const auto word = " attempt " + std::to_string(attempt) + " stands";
    for (std::size_t at = 0; (at = job.out().find(word, at)) != std::string::npos; ++at) ++count;
    return count;
  };
  REQUIRE(wait_until([&] { return stand(0) == 6; }, in_time));
  const auto start = std::chrono::steady_clock::now();
  for (const std::size_t other : std::to_array<std::size_t>({0, 2, 3, 4})) site.lab.cut(1, other);
  CHECK(wait_until([&] { return stand(1) == 2 || !job.is_running(); }, in_time));
  const auto took = std::chrono::steady_clock::now() - start;
  // delivery.limit, lease, grace and 5 s: not before the lease can be over.
  CHECK(took > 12s);
  CHECK(site.procs_on(1, kMark).empty());
  site.lab.heal();
  std::ofstream(dir / "go").put('x');
  const auto status = job.wait_exit(in_time);
  INFO(job.describe());
  CHECK(status == ExitStatus::exited(0));
  CHECK(stand(0) == 6);
  CHECK(stand(1) == 2);
  CHECK(job.err().find("; ranks 2-3 move to a spare host in ") != std::string::npos);
  CHECK(job.err().find("ranks 2-3 are started on host " + site.address(3) + " instead of " +
                       site.address(1)) != std::string::npos);
  const auto report = nlohmann::json::parse(read_file(dir / "report.json"));
  CHECK(report.at("attempts").empty());
  REQUIRE(report.at("former_lives").size() == 2);
  CHECK(report.at("former_lives")[0].at("host") == site.address(1));
}
