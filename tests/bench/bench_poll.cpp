// Benchmark poll: hosts are asked how their ranks are, and what they say is put together.
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "bench/child.h"
#include "bench/measured.h"
#include "client/controller/mesh_controller.h"
#include "meshbus/client.h"
#include "meshbus/status_wait.h"
#include "tests/bench/benches.h"
#include "wire/ranks_generated.h"

namespace meshbus::bench {

namespace {

using Direction = Bar::Direction;
using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

constexpr std::chrono::seconds kPollLimit{120};

/// Sleeping procs on hosts of this machine. They stand from the first poll to the end of the
/// benchmark.
class Sleepers {
 public:
  Sleepers(std::size_t ranks, std::size_t hosts) : ranks_(ranks), number_of_hosts_(hosts) {}

  ~Sleepers() {
    if (mesh_)
      (void)mesh_->stop(
          {.reason = "measured", .grace = std::chrono::milliseconds(0), .deadline = kPollLimit});
    if (hosts_) (void)hosts_->shutdown(kPollLimit);
  }
  Sleepers(const Sleepers&) = delete;
  Sleepers& operator=(const Sleepers&) = delete;

  /// Asks for the statuses of all ranks.
  Figures statuses(std::size_t polls) {
    return timed(polls, [this] {
      const auto statuses = must(hosts_->statuses(mesh_->ref(), kPollLimit));
      if (count_missing(statuses, Status::Kind::running) != 0)
        throw std::runtime_error("a rank does not run: " + to_string(statuses));
    });
  }
  /// Asks for all that is known of them.
  Figures states(std::size_t polls) {
    return timed(polls, [this] {
      const auto listing = must(hosts_->meshes(kPollLimit));
      std::size_t ready = 0;
      for (const auto& mesh : listing.meshes)
        ready += static_cast<std::size_t>(
            std::ranges::count(mesh.ranks, ProcState::ready, &RankReport::state));
      if (ready != ranks_)
        throw std::runtime_error(std::to_string(ready) + " of " + std::to_string(ranks_) +
                                 " ranks are ready");
    });
  }

 private:
  void start() {
    if (mesh_) return;
    ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1);
    context_.emplace(must(Context::create()));
    hosts_.emplace(
        must(HostMesh::process(*context_, must(Extent::make({{"host", number_of_hosts_}})),
                               {.program = own_folder() + "meshbus"})));
    mesh_.emplace(must(hosts_->spawn_n(
        "sleepers", ranks_, {.command = {"/bin/sleep", "100000"}, .ready_limit = kPollLimit},
        {.on_failure = [](const RankReport&) {}})));
    must(mesh_->wait_status(Status::Kind::running, {.deadline = kPollLimit}));
  }
  template <typename Poll>
  Figures timed(std::size_t polls, const Poll& poll) {
    start();
    poll();
    std::vector<double> times;
    for (std::size_t i = 0; i < polls; ++i) {
      const auto begin = Clock::now();
      poll();
      times.push_back(Microseconds(Clock::now() - begin).count());
    }
    return {{"p50_us", percentile(times, 50)}, {"p99_us", percentile(times, 99)}};
  }

  std::size_t ranks_, number_of_hosts_;
  SocketFolder folder_;
  std::optional<Context> context_;
  std::optional<HostMesh> hosts_;
  std::optional<ProcMesh> mesh_;
};

Figures bare_poll(std::size_t ranks, std::size_t hosts, std::size_t polls) {
  Child floor({own_folder() + "meshbus-floor-poll", std::to_string(ranks), std::to_string(hosts),
               std::to_string(polls)});
  std::istringstream line(floor.read_line());
  double p50 = 0, p99 = 0;
  if (!(line >> p50 >> p99)) throw std::runtime_error("the floor did not say how long it took");
  return {{"p50_us", p50}, {"p99_us", p99}};
}

std::vector<std::uint64_t> shuffled(std::size_t ranks) {
  std::vector<std::uint64_t> order(ranks);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937_64(7));
  return order;
}

/// The cost of one status that comes alone, in any order: to a wait, and to a controller.
Figures merge(std::size_t ranks) {
  const auto order = shuffled(ranks);
  const Region region(must(Extent::make({{"rank", ranks}})));
  const auto nanoseconds = [&](Clock::time_point begin) {
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() /
           static_cast<double>(ranks);
  };
  auto begin = Clock::now();
  StatusWait wait(region, Status::Kind::running, {}, begin);
  for (const auto rank : order) (void)wait.set(rank, Status::Kind::running, begin);
  Figures figures{{"update_ns", nanoseconds(begin)}};
  if (wait.check(begin) != StatusWait::State::complete)
    throw std::runtime_error("not all ranks were merged");

  const auto host = must(HostAddr::parse("unix:/bench"));
  const auto state = [](std::uint64_t rank, std::uint64_t generation, wire::ProcState to) {
    return wire::RankState(rank, generation, 1, 1, 0, 42, 0, to, 0, false, wire::StopStep::none, 0);
  };
  MeshUpdate news{.mesh = must(Name::make("sleepers")).to_string(),
                  .region = region,
                  .hosts = {host},
                  .ranks_update = {}};
  for (std::size_t rank = 0; rank < ranks; ++rank)
    news.ranks_update.ranks.push_back(state(rank, 1, wire::ProcState::running));
  MeshController controller(news.mesh,
                            std::make_shared<const std::set<HostAddr>>(std::set<HostAddr>{host}));
  begin = Clock::now();
  const auto listed = controller.listed(host, news, begin).events.size();
  figures["listed_ns"] = nanoseconds(begin);
  controller.answered({MeshController::Order::Kind::stream, host}, news, begin);
  begin = Clock::now();
  auto told = listed;
  for (const auto rank : order)
    told +=
        controller
            .pushed(host, {.ranks = {state(rank, 2, wire::ProcState::ready)}, .exit_reports = {}},
                    begin)
            .events.size();
  figures["pushed_ns"] = nanoseconds(begin);
  if (told != 2 * ranks) throw std::runtime_error("not all ranks were told");
  return figures;
}

}  // namespace

int run_poll(const Settings& settings, const Amounts& amounts) {
  Comparison comparison("poll",
                        "N sleeping procs, " + std::to_string(amounts.per_host) + " to a host, " +
                            std::to_string(amounts.count) +
                            " polls a round: from the question to all statuses in one place",
                        settings);
  comparison.note(
      "statuses: HostMesh::statuses(), equal neighbours in one entry. states: HostMesh::meshes(), "
      "72 bytes for each rank");
  comparison.note(
      "merge: no bus; one status that comes alone, in any order. update_ns for who waits "
      "(StatusWait), pushed_ns for a controller, with "
      "the "
      "event that it becomes; listed_ns: one rank of a list of all, at a controller that knows "
      "none");
  for (const std::size_t ranks : amounts.sizes) {
    const auto hosts = (ranks + amounts.per_host - 1) / amounts.per_host;
    const auto sleepers = std::make_shared<Sleepers>(ranks, hosts);
    const auto polls = amounts.count;
    comparison.add(
        {.size = static_cast<double>(ranks),
         .unit = "ranks",
         .sides = {{"exchange", Part::floor,
                    "a vector of structs from each child of a bare ROUTER, one for each rank",
                    [=] { return bare_poll(ranks, hosts, polls); }},
                   {"statuses", Part::ours, "the statuses of all ranks",
                    [=] { return sleepers->statuses(polls); }},
                   {"states", Part::ours, "all that is known of them",
                    [=] { return sleepers->states(polls); }},
                   {"merge", Part::ours, "news of one rank after the other",
                    [=] { return merge(ranks); }}},
         .bars = {{"p50_us", "statuses", "exchange", Direction::at_most, 3, 1.5},
                  {"p50_us", "states", "exchange", Direction::at_most},
                  {"update_ns", "merge", "", Direction::at_most, 250, 100},
                  {"pushed_ns", "merge", "", Direction::at_most}}});
  }
  comparison.fit("p50_us");
  return comparison.run();
}

}  // namespace meshbus::bench
