// Benchmark notice: a proc gets SIGKILL; when does its launcher's handler run?
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "bench/child.h"
#include "bench/measured.h"
#include "meshbus/client.h"
#include "tests/bench/benches.h"

namespace meshbus::bench {

namespace {

using Direction = Bar::Direction;
using Clock = std::chrono::steady_clock;
using WallClock = std::chrono::system_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

constexpr std::chrono::seconds kNoticeLimit{60};
constexpr std::chrono::milliseconds kSettled{100};

/// The last failure that the launcher's handler heard of.
class Heard {
 public:
  void tell(const RankReport& rank) {
    const std::lock_guard lock(mutex_);
    when_ = Clock::now();
    last_ = rank;
    changed_.notify_one();
  }
  /// The report of that rank, and when it was heard.
  std::pair<RankReport, Clock::time_point> wait_for(std::uint64_t rank) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kNoticeLimit, [&] { return last_ && last_->rank == rank; }))
      throw std::runtime_error("no notice of a death");
    return {*last_, when_};
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<RankReport> last_;
  Clock::time_point when_;
};

/// The launcher is connected to the first host; the procs that are killed are on the last one.
Figures meshbus_notice(std::uint64_t host_count, std::size_t kills, std::size_t bystanders,
                       std::chrono::milliseconds pause) {
  const SocketFolder folder;
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  auto context = must(Context::create());
  auto hosts =
      must(HostMesh::process(context, must(Extent::parse("host=" + std::to_string(host_count))),
                             {.program = own_folder() + "meshbus"}));
  Heard heard;
  auto mesh = must(hosts.spawn_n(
      "sleepers", host_count * (kills + bystanders), {.command = {"/bin/sleep", "1000"}},
      {.on_failure = [&](const RankReport& rank) { heard.tell(rank); }}));
  auto ranks = must(mesh.status());
  std::erase_if(ranks, [&](const RankReport& rank) { return rank.host_index + 1 != host_count; });
  // While a mesh starts, failures are kept until all ranks have been up for a while
  // (client/src/monitors/rank_table.h).
  std::this_thread::sleep_for(kSettled);  // sleep-ok: only deaths in a mesh that is up count
  std::vector<double> to_launcher, to_agent;
  for (std::size_t i = 0; i < kills; ++i) {
    const auto wall = WallClock::now();
    const auto start = Clock::now();
    ::kill(static_cast<pid_t>(ranks[i].pid), SIGKILL);
    const auto [report, when] = heard.wait_for(ranks[i].rank);
    to_launcher.push_back(Microseconds(when - start).count());
    if (report.ended) to_agent.push_back(Microseconds(*report.ended - wall).count());
    std::this_thread::sleep_for(pause);  // sleep-ok: deaths one by one are what is measured
  }
  must(mesh.stop({.reason = "measured", .grace = std::chrono::milliseconds(0)}));
  must(hosts.shutdown());
  if (to_agent.empty()) throw std::runtime_error("exit reports do not say when");
  return {{"p50_us", percentile(to_launcher, 50)},
          {"p99_us", percentile(to_launcher, 99)},
          {"host_p50_us", percentile(to_agent, 50)},
          {"host_p99_us", percentile(to_agent, 99)}};
}

Figures bare_notice(std::size_t kills, std::size_t bystanders, std::chrono::milliseconds pause) {
  Child floor({own_folder() + "meshbus-floor-notice", std::to_string(kills),
               std::to_string(bystanders), std::to_string(pause.count())});
  std::istringstream line(floor.read_line());
  double p50 = 0, p99 = 0;
  if (!(line >> p50 >> p99)) throw std::runtime_error("the floor did not say how long it took");
  return {{"p50_us", p50}, {"p99_us", p99}, {"host_p50_us", p50}, {"host_p99_us", p99}};
}

}  // namespace

int run_notice(const Settings& settings, const Amounts& amounts) {
  Comparison comparison("notice",
                        "from the SIGKILL of a proc to who wants to know, beside N others, " +
                            std::to_string(amounts.count) + " kills a round, " +
                            std::to_string(amounts.pause_ms) + " ms apart",
                        settings);
  const std::chrono::milliseconds pause(amounts.pause_ms);
  comparison.note(
      "host_*: until the host knows, by the time that the exit report tells: its keeper reaped the "
      "proc. The bars (200 and 1000 us "
      "there, 500 and 5000 at the launcher, 1000 and 10000 at the far one, on a machine where a "
      "pidfd takes 68 and 155) are ratios to the "
      "pidfd of the same run");
  // Measured beside 300 others: kills one right after the other cost 1.2 ms, with 20 ms between
  // them 0.16 ms.
  comparison.note(
      "the handler runs when the exit report has come, which waits for a look for orphans. A look "
      "costs with the number of procs, and "
      "after each the keeper rests four times as long: of kills one right after the other each "
      "waits for that (--pause 20 does not)");
  for (const std::size_t size : amounts.sizes) {
    Case one{.size = static_cast<double>(size), .unit = "procs", .sides = {}, .bars = {}};
    one.sides = {
        {"pidfd", Part::floor, "epoll wakes up, in the process that kills",
         [=, &amounts] { return bare_notice(amounts.count, size, pause); }},
        {"launcher", Part::ours, "the failure handler of a launcher on the same host runs",
         [=, &amounts] { return meshbus_notice(1, amounts.count, size, pause); }},
        {"far launcher", Part::ours, "the same, of a launcher at another host of this machine",
         [=, &amounts] { return meshbus_notice(2, amounts.count, size, pause); }}};
    one.bars = {{"p50_us", "launcher", "pidfd", Direction::at_most, 500. / 68, 250. / 68},
                {"p99_us", "launcher", "pidfd", Direction::at_most, 5000. / 155, 1000. / 155},
                {"p50_us", "far launcher", "pidfd", Direction::at_most, 1000. / 68, 400. / 68},
                {"p99_us", "far launcher", "pidfd", Direction::at_most, 10000. / 155, 2000. / 155},
                {"host_p50_us", "launcher", "pidfd", Direction::at_most, 200. / 68, 100. / 68},
                {"host_p99_us", "launcher", "pidfd", Direction::at_most, 1000. / 155, 300. / 155}};
    comparison.add(std::move(one));
  }
  comparison.fit("p50_us");
  return comparison.run();
}

}  // namespace meshbus::bench
