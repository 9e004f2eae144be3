// A job with a spare, again and again, of which one host is killed, slowed, switched off, cut off
// or frozen (spec 18.1). MESHBUS_TEST_SPARE_ROUNDS rounds; default: two.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <thread>

#include "tests/multihost/site.h"
#include "tests/support/temp_dir.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kRoundMark = "round-rank";
constexpr std::size_t kRoundHosts = 4;
constexpr std::size_t kUsed = 3;
constexpr std::size_t kRanks = 2 * kUsed;
constexpr std::chrono::seconds kLease{6};

/// What befalls a host. A plain run tries the first two.
enum class Kind { killed, slowed, switched_off, cut_off, mute, frozen };
constexpr auto kKinds =
    std::to_array<const char*>({"killed", "slowed", "switched off", "cut off", "mute", "frozen"});
constexpr std::size_t kPlainKinds = 2;

/// One job: six ranks on three of four hosts. A rank holds the lock of its number as long as it
/// runs, and ends with 9 when another process has it.
class Round {
 public:
  Round(Site& site, Kind kind, std::size_t victim) : site_(site), kind_(kind), victim_(victim) {
    // A frozen process keeps its lock, and does not run.
    if (kind == Kind::frozen) std::ofstream(locks_ / "frozen").put('x');
    process_.reset(new Process(site.desk().start(words())));
    wait_until([&] { return lines("stands") == kRanks || !process_->is_running(); }, in_time);
    INFO(process_->describe());
    REQUIRE(lines("stands") == kRanks);
  }

  /// The job to its end. How long after the trouble all ranks ran again; nothing: it was none.
  std::optional<std::chrono::milliseconds> run(std::chrono::milliseconds moment) {
    std::this_thread::sleep_for(moment);  // sleep-ok: the moment of the trouble
    const auto start = Clock::now();
    befall();
    if (kind_ == Kind::slowed) {
      // It takes some round trips of the slow host.
      CHECK_FALSE(wait_until([&] { return !process_->is_running(); }, 2s));
      std::ofstream(locks_ / "go").put('x');
      check_end(0);
      return std::nullopt;
    }
    wait_until([&] { return lines("went on") == kRanks || !process_->is_running(); }, 120s);
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
    check_end(1);
    return took;
  }

  /// The host is as it was before.
  void mend() {
    site_.lab.heal();
    if (kind_ == Kind::slowed) site_.lab.delay(victim_, {});
    if (kind_ == Kind::frozen) site_.lab.thaw(victim_);
    // The ranks that it had when it was lost end with their lease.
    if (kind_ != Kind::switched_off)
      CHECK(wait_until([&] { return site_.procs_on(victim_, kRoundMark).empty(); }, in_time));
    if (kind_ == Kind::switched_off) site_.lab.boot(victim_);
    if (kind_ == Kind::switched_off || kind_ == Kind::killed) {
      site_.start_host(victim_);
      site_.wait_ready(victim_);
    }
  }

 private:
  void befall() {
    switch (kind_) {
      case Kind::killed: site_.host(victim_).send_signal(SIGKILL); break;
      case Kind::slowed: site_.lab.delay(victim_, {.delay = 150ms, .jitter = 20ms}); break;
      case Kind::switched_off: site_.lab.power_off(victim_); break;
      case Kind::frozen: site_.lab.freeze(victim_); break;
      case Kind::cut_off:
      case Kind::mute:
        for (std::size_t other = 0; other <= kRoundHosts; ++other) {
          if (other == victim_) continue;
          if (kind_ == Kind::cut_off) {
            site_.lab.cut(victim_, other);
          } else {
            site_.lab.lose(victim_, other, 1);
          }
        }
        break;
    }
  }

  void check_end(std::size_t attempts) {
    const auto status = process_->wait_exit(120s);
    INFO(process_->describe());
    CHECK(status == ExitStatus::exited(0));
    const auto report = nlohmann::json::parse(read_file(locks_ / "report.json"));
    const auto told = report.at("attempts");
    REQUIRE(told.size() == attempts);
    if (attempts == 1) {
      CHECK(told[0].at("lost_hosts") == nlohmann::json::array({site_.address(victim_)}));
      CHECK(lines("went on") == kRanks);
    }
    std::size_t said = 0;
    const auto& err = process_->err();
    for (std::size_t at = 0; (at = err.find("attempt 2 of the job", at)) != std::string::npos; ++at)
      ++said;
    CHECK(said == attempts);
    CHECK(err.find("attempt 3 of the job") == std::string::npos);
    // The host itself has told that its ranks are dead, so nobody waits for their lease.
    if (kind_ == Kind::killed) {
      CHECK(err.find("its warden, the process meshbus host, has died") != std::string::npos);
      CHECK(err.find("waiting until the lease") == std::string::npos);
    }
  }

  std::size_t lines(const std::string& word) const {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = process_->out().find(word, at)) != std::string::npos; ++at)
      ++count;
    return count;
  }
  Words words() const {
    return site_.run_words({"--use", std::to_string(kUsed), "--per-host", "gpus=2", "--json",
                            locks_ / "report.json", "--set", "delivery.limit=4s", "--set",
                            "lease=" + std::to_string(kLease.count()) + "s", "--grace", "1s", "--",
                            "sh", "-c",
                            "exec 9>>\"$1/rank$RANK\"\n"
                            "flock -n 9 || [ -e \"$1/frozen\" ] || exit 9\n"
                            "if [ $MESHBUS_JOB_ATTEMPT = 0 ]; then\n"
                            "  echo stands; until [ -e \"$1/go\" ]; do sleep 0.05; done\n"
                            "else echo went on; fi",
                            kRoundMark, locks_.path().string()});
  }

  Site& site_;
  Kind kind_;
  std::size_t victim_;
  TempDir locks_;
  std::unique_ptr<Process> process_;
};

}  // namespace

TEST_CASE("multihost: whatever befalls one of four hosts, its job goes on with the spare") {
  const char* const given = std::getenv("MESHBUS_TEST_SPARE_ROUNDS");
  const std::size_t rounds = given == nullptr ? kPlainKinds : std::stoul(given);
  std::mt19937 chance(rounds);
  Site site(kRoundHosts);
  std::map<std::string, std::vector<std::chrono::milliseconds>> times;
  for (std::size_t i = 0; i < rounds; ++i) {
    const auto kind = static_cast<Kind>(i % (given == nullptr ? kPlainKinds : kKinds.size()));
    const std::size_t victim = chance() % kUsed;
    const std::chrono::milliseconds moment(chance() % 300);
    CAPTURE(i);
    const std::string name = kKinds[static_cast<std::size_t>(kind)];
    CAPTURE(name);
    CAPTURE(victim);
    Round round(site, kind, victim);
    if (const auto took = round.run(moment)) times[name].push_back(*took);
    round.mend();
  }
  for (auto& [kind, all] : times) {
    std::ranges::sort(all);
    MESSAGE(kind << ": " << all.size() << " rounds; all ranks ran again after "
                 << all[all.size() / 2].count() << " ms, at most " << all.back().count() << " ms");
  }
}
