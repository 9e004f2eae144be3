// Benchmark crowd: thousands of procs that sleep on one host come up, are listed and stopped, while somebody else asks the same host about
// a small mesh all the time.
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "client/bench/child.h"
#include "client/bench/measured.h"
#include "meshbus/client.h"
#include "tests/bench/benches.h"

namespace meshbus::bench {

namespace {

using Direction = Bar::Direction;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr std::chrono::seconds kCrowdLimit{120};
constexpr std::uint64_t kSmall = 4;

double time_of_call(const auto& call) {
  const auto start = Clock::now();
  call();
  return Milliseconds(Clock::now() - start).count();
}

/// Another launcher, which asks for the states of its own small mesh until it goes.
class Asker {
 public:
  explicit Asker(const std::vector<HostAddr>& addresses)
      : context_(must(Context::create())),
        hosts_(must(HostMesh::attach(context_, "asker", addresses))),
        mesh_(must(hosts_.spawn_n("small", kSmall, {.command = {"/bin/sleep", "1000"}}, {.on_failure = [](const RankReport&) {}}))),
        thread_([this] {
          while (!is_over_) times_.push_back(time_of_call([&] { ranks_ = mesh_.status(kCrowdLimit); }));
        }) {}
  std::vector<double> end() {
    is_over_ = true;
    thread_.join();
    const auto ranks = must(std::move(ranks_));
    for (const auto& rank : ranks) {
      if (rank.state != ProcState::ready) throw std::runtime_error(rank.describe());
    }
    must(mesh_.stop({.grace = std::chrono::milliseconds(0)}));
    return std::move(times_);
  }

 private:
  Context context_;
  HostMesh hosts_;
  ProcMesh mesh_;
  Result<std::vector<RankReport>> ranks_;
  std::vector<double> times_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

Figures crowd(std::size_t procs) {
  const SocketFolder folder;
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, must(Extent::parse("host=1")), {.program = own_folder() + "meshbus"}));
  Asker asker(hosts.hosts());
  std::optional<ProcMesh> mesh;
  const double up = time_of_call([&] {
    mesh.emplace(must(hosts.spawn_n("crowd", procs, {.command = {"/bin/sleep", "1000"}, .ready_limit = kCrowdLimit},
                                    {.on_failure = [](const RankReport&) {}})));
  });
  std::vector<double> listed;
  for (int i = 0; i < 20; ++i) {
    std::vector<RankReport> ranks;
    listed.push_back(time_of_call([&] { ranks = must(mesh->status(kCrowdLimit)); }));
    const auto ready = std::count_if(ranks.begin(), ranks.end(), [](const RankReport& rank) { return rank.state == ProcState::ready; });
    if (static_cast<std::size_t>(ready) != procs)
      throw std::runtime_error(std::to_string(ready) + " of " + std::to_string(procs) + " ranks are ready");
  }
  const double stop = time_of_call([&] { must(mesh->stop({.reason = "measured", .deadline = kCrowdLimit})); });
  auto asked = asker.end();
  must(hosts.shutdown(kCrowdLimit));
  return {{"up_ms", up},
          {"list_p50_ms", percentile(listed, 50)},
          {"stop_ms", stop},
          {"asked_p50_ms", percentile(asked, 50)},
          {"asked_p99_ms", percentile(asked, 99)},
          {"asked_max_ms", asked.back()},
          {"asked_times", static_cast<double>(asked.size())}};
}

}  // namespace

int run_crowd(const Settings& settings, const Amounts& amounts) {
  Comparison comparison("crowd", "N sleeping procs on one host: up, listed, stopped, while the states of a small mesh are asked for",
                        settings);
  comparison.note(
      "asked_*: another launcher's request for the states of its 4 procs on that host, from before the first birth to after the last end");
  for (const std::size_t procs : amounts.sizes) {
    comparison.add({.size = static_cast<double>(procs),
                    .unit = "procs",
                    .sides = {{"crowd", Part::ours, "a mesh of /bin/sleep", [=] { return crowd(procs); }}},
                    .bars = {{"asked_p99_ms", "crowd", "", Direction::at_most, 50, 10}}});
  }
  comparison.fit("up_ms");
  comparison.fit("list_p50_ms");
  comparison.fit("stop_ms");
  return comparison.run();
}

}  // namespace meshbus::bench
