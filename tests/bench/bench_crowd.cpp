// Benchmark crowd: thousands of procs that sleep on one host come up, are listed and stopped, while somebody else asks the same host about
// a small mesh all the time.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
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

/// What the host's agent takes of a CPU, in thousandths, while nobody asks anything and it looks at its procs every `period`.
double agent_share(std::size_t procs, const std::string& period, std::chrono::seconds time) {
  const SocketFolder folder;
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, must(Extent::parse("host=1")),
                                      {.program = own_folder() + "meshbus", .settings = {{"usage.period", period}}}));
  auto mesh = must(hosts.spawn_n("crowd", procs, {.command = {"/bin/sleep", "1000"}, .ready_limit = kCrowdLimit},
                                 {.on_failure = [](const RankReport&) {}}));
  const auto agent = static_cast<pid_t>(must(hosts.states()).at(0).pid);
  const auto before = cpu_of(agent);
  const auto start = Clock::now();
  std::this_thread::sleep_for(time);  // sleep-ok: what is measured is time in which nothing happens
  const auto used = cpu_of(agent) - before;
  const double share = 1000 * std::chrono::duration<double>(used).count() / std::chrono::duration<double>(Clock::now() - start).count();
  must(mesh.stop({.reason = "measured", .grace = std::chrono::milliseconds(0), .deadline = kCrowdLimit}));
  must(hosts.shutdown(kCrowdLimit));
  return share;
}

/// The same for a bare loop that reads the same files of as many procs, as often.
double bare_share(std::size_t procs, std::chrono::seconds period) {
  std::vector<std::unique_ptr<Child>> children;
  for (std::size_t i = 0; i < procs; ++i) children.push_back(std::make_unique<Child>(std::vector<std::string>{"/bin/sleep", "1000"}));
  const auto cpu = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
  };
  constexpr int kPasses = 5;
  const double before = cpu();
  std::array<char, 4096> buffer;
  for (int pass = 0; pass < kPasses; ++pass) {
    for (const auto& child : children) {
      const std::string folder = "/proc/" + std::to_string(child->pid()) + "/";
      for (const char* name : {"stat", "status"}) {
        const int fd = ::open((folder + name).c_str(), O_RDONLY | O_CLOEXEC);
        if (fd < 0 || ::read(fd, buffer.data(), buffer.size()) <= 0) throw std::runtime_error("cannot read " + folder + name);
        ::close(fd);
      }
      struct stat status{};
      ::stat((folder + "fd").c_str(), &status);
    }
  }
  return 1000 * (cpu() - before) / kPasses / std::chrono::duration<double>(period).count();
}

}  // namespace

int run_usage(const Settings& settings, const Amounts& amounts) {
  Comparison comparison("usage", "N sleeping procs on one host, looked at every 5 s: what the agent takes of a CPU (1000 = all of it)",
                        settings);
  comparison.note("idle: the same host with usage.period=0s; bare: a loop that reads stat, status and fd of as many procs of its own");
  constexpr std::chrono::seconds kPeriod{5};
  for (const std::size_t procs : amounts.sizes) {
    const auto share = [=](const std::string& period) {
      return [=] { return Figures{{"cpu_permille", agent_share(procs, period, 2 * kPeriod)}}; };
    };
    comparison.add(
        {.size = static_cast<double>(procs),
         .unit = "procs",
         .sides = {{"agent", Part::ours, "with usage.period=5s, the default", share("5s")},
                   {"idle", Part::ours, "with usage.period=0s", share("0s")},
                   {"bare", Part::floor, "a loop that reads the same files",
                    [=] { return Figures{{"cpu_permille", bare_share(procs, kPeriod)}}; }}},
         .bars = {{"cpu_permille", "agent", "", Direction::at_most, 10, 10}, {"cpu_permille", "agent", "bare", Direction::at_most}}});
  }
  comparison.fit("cpu_permille");
  return comparison.run();
}

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
