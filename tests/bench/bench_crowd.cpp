// Benchmark crowd: thousands of procs that sleep on one host come up, are listed and stopped, while
// that host is asked all the time: by somebody else about a small mesh, and by their launcher about
// all of them.
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

#include "bench/child.h"
#include "bench/measured.h"
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

constexpr std::chrono::milliseconds kCrowdPause{5};

/// Asks for the states of a mesh until it is told to end.
class Asker {
 public:
  Asker(const ProcMesh& mesh, std::chrono::milliseconds pause)
      : thread_([this, &mesh, pause] {
          while (!is_over_) {
            times_.push_back(time_of_call([&] { ranks_ = mesh.status(kCrowdLimit); }));
            check(ranks_);
            std::this_thread::sleep_for(pause);  // sleep-ok: questions at a pace
          }
        }) {}
  ~Asker() { join(); }
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;

  /// How long the answers took. Throws when one of them was none.
  std::vector<double> end() {
    join();
    if (!problem_.empty()) throw std::runtime_error("a question was not answered: " + problem_);
    return std::move(times_);
  }

 private:
  void join() {
    is_over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void check(const Result<std::vector<RankReport>>& ranks) {
    if (!ranks) problem_ = ranks.error().to_string();
    for (std::size_t i = 0; ranks && i < ranks->size(); ++i) {
      if ((*ranks)[i].state == ProcState::unknown) problem_ = (*ranks)[i].describe();
    }
  }

  Result<std::vector<RankReport>> ranks_;
  std::vector<double> times_;
  std::string problem_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

/// Another launcher with a small mesh on these hosts, about which it asks without a pause.
class Bystander {
 public:
  explicit Bystander(const std::vector<HostAddr>& addresses)
      : context_(must(Context::create())),
        hosts_(must(HostMesh::attach(context_, "asker", addresses))),
        mesh_(must(hosts_.spawn_n("small", kSmall, {.command = {"/bin/sleep", "1000"}},
                                  {.on_failure = [](const RankReport&) {}}))),
        asker_(mesh_, std::chrono::milliseconds(0)) {}
  std::vector<double> end() {
    auto times = asker_.end();
    for (const auto& rank : must(mesh_.status(kCrowdLimit))) {
      if (rank.state != ProcState::ready) throw std::runtime_error(rank.describe());
    }
    must(mesh_.stop({.grace = std::chrono::milliseconds(0)}));
    return times;
  }

 private:
  Context context_;
  HostMesh hosts_;
  ProcMesh mesh_;
  Asker asker_;
};

Figures crowd(std::size_t procs) {
  const SocketFolder folder;
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, must(Extent::parse("host=1")),
                                      {.program = own_folder() + "meshbus"}));
  Bystander bystander(hosts.hosts());
  const auto start = Clock::now();
  auto mesh = must(hosts.spawn_n(
      "crowd", procs,
      {.command = {"/bin/sleep", "1000"}, .ready_limit = kCrowdLimit, .wait_ready = false},
      {.on_failure = [](const RankReport&) {}}));
  Asker asker(mesh, kCrowdPause);
  must(mesh.wait_status(Status::Kind::running, {.deadline = kCrowdLimit}));
  const double up = Milliseconds(Clock::now() - start).count();
  std::vector<double> listed;
  for (int i = 0; i < 20; ++i) {
    std::vector<RankReport> ranks;
    listed.push_back(time_of_call([&] { ranks = must(mesh.status(kCrowdLimit)); }));
    const auto ready = std::count_if(ranks.begin(), ranks.end(), [](const RankReport& rank) {
      return rank.state == ProcState::ready;
    });
    if (static_cast<std::size_t>(ready) != procs)
      throw std::runtime_error(std::to_string(ready) + " of " + std::to_string(procs) +
                               " ranks are ready");
  }
  const double stop =
      time_of_call([&] { must(mesh.stop({.reason = "measured", .deadline = kCrowdLimit})); });
  auto about_all = asker.end();
  auto asked = bystander.end();
  must(hosts.shutdown(kCrowdLimit));
  return {{"up_ms", up},
          {"list_p50_ms", percentile(listed, 50)},
          {"stop_ms", stop},
          {"asked_p50_ms", percentile(asked, 50)},
          {"asked_p99_ms", percentile(asked, 99)},
          {"asked_max_ms", asked.back()},
          {"asked_times", static_cast<double>(asked.size())},
          {"all_p50_ms", percentile(about_all, 50)},
          {"all_p99_ms", percentile(about_all, 99)},
          {"all_max_ms", about_all.back()},
          {"all_times", static_cast<double>(about_all.size())}};
}

/// What the host's agent takes of a CPU, in thousandths, while nobody asks anything and it looks at
/// its procs every `period`.
double agent_share(std::size_t procs, const std::string& period, std::chrono::milliseconds time) {
  const SocketFolder folder;
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(
      context, must(Extent::parse("host=1")),
      {.program = own_folder() + "meshbus", .settings = {{"usage.period", period}}}));
  auto mesh = must(hosts.spawn_n("crowd", procs,
                                 {.command = {"/bin/sleep", "1000"}, .ready_limit = kCrowdLimit},
                                 {.on_failure = [](const RankReport&) {}}));
  const auto agent = static_cast<pid_t>(must(hosts.states()).at(0).pid);
  const auto before = cpu_of(agent);
  const auto start = Clock::now();
  std::this_thread::sleep_for(time);  // sleep-ok: what is measured is time in which nothing happens
  const auto used = cpu_of(agent) - before;
  const double share = 1000 * std::chrono::duration<double>(used).count() /
                       std::chrono::duration<double>(Clock::now() - start).count();
  must(mesh.stop(
      {.reason = "measured", .grace = std::chrono::milliseconds(0), .deadline = kCrowdLimit}));
  must(hosts.shutdown(kCrowdLimit));
  return share;
}

/// The same for a bare loop that reads the same files of as many procs, as often.
double bare_share(std::size_t procs, std::chrono::seconds period) {
  std::vector<std::unique_ptr<Child>> children;
  for (std::size_t i = 0; i < procs; ++i)
    children.push_back(std::make_unique<Child>(std::vector<std::string>{"/bin/sleep", "1000"}));
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
        if (fd < 0 || ::read(fd, buffer.data(), buffer.size()) <= 0)
          throw std::runtime_error("cannot read " + folder + name);
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
  Comparison comparison("usage",
                        "N sleeping procs on one host, looked at every 5 s: what the agent takes "
                        "of a CPU (1000 = all of it)",
                        settings);
  comparison.note(
      "idle: the same host with usage.period=0s; bare: a loop that reads stat, status and fd of as "
      "many procs of its own");
  constexpr std::chrono::seconds kPeriod{5};
  const std::chrono::milliseconds time(amounts.duration_ms);
  for (const std::size_t procs : amounts.sizes) {
    const auto share = [=](const std::string& period) {
      return [=] { return Figures{{"cpu_permille", agent_share(procs, period, time)}}; };
    };
    comparison.add(
        {.size = static_cast<double>(procs),
         .unit = "procs",
         .sides = {{"agent", Part::ours, "with usage.period=5s, the default", share("5s")},
                   {"idle", Part::ours, "with usage.period=0s", share("0s")},
                   {"bare", Part::floor, "a loop that reads the same files",
                    [=] { return Figures{{"cpu_permille", bare_share(procs, kPeriod)}}; }}},
         .bars = {{"cpu_permille", "agent", "", Direction::at_most, 10, 10},
                  {"cpu_permille", "agent", "bare", Direction::at_most}}});
  }
  comparison.fit("cpu_permille");
  return comparison.run();
}

int run_crowd(const Settings& settings, const Amounts& amounts) {
  Comparison comparison("crowd",
                        "N sleeping procs on one host: up, listed, stopped, while the states of a "
                        "small mesh are asked for",
                        settings);
  comparison.note(
      "asked_*: another launcher's request for the states of its 4 procs on that host, from before "
      "the first birth to after the last end");
  comparison.note(
      "all_*: the request of their launcher for the states of all N, 5 ms after each answer, from "
      "before the first birth likewise");
  for (const std::size_t procs : amounts.sizes) {
    comparison.add(
        {.size = static_cast<double>(procs),
         .unit = "procs",
         .sides = {{"crowd", Part::ours, "a mesh of /bin/sleep", [=] { return crowd(procs); }}},
         .bars = {{"asked_p99_ms", "crowd", "", Direction::at_most, 50, 10},
                  {"all_p99_ms", "crowd", "", Direction::at_most, 50, 10}}});
  }
  comparison.fit("up_ms");
  comparison.fit("list_p50_ms");
  comparison.fit("stop_ms");
  return comparison.run();
}

}  // namespace meshbus::bench
