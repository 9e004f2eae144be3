// Many peers of one broker: they register, get a message each, and are killed all at once.
#include <algorithm>
#include <csignal>
#include <memory>
#include <span>
#include <sstream>

#include "bench/brokers.h"
#include "bench/crowd.h"
#include "bench/measured.h"
#include "common/bus/bus.h"
#include "common/security/token.h"
#include "meshbus/name.h"
#include "tests/bench/benches.h"
#include "wire/bus_generated.h"

namespace meshbus::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Direction = Bar::Direction;

/// The processes of a crowd are started by the command line itself.
const std::vector<std::string> kCrowdProgram = {"meshbus", "bench", "crowd"};
constexpr std::chrono::seconds kGoneLimit{60};
/// A broker lets one watcher watch 4096.
constexpr std::size_t kMostWatched = 4000;

Figures bare_once(std::size_t peers, std::size_t count) {
  Child floor({own_folder() + "meshbus-floor-crowd", std::to_string(peers), std::to_string(count)});
  std::istringstream line(floor.read_line());
  double ms = 0, kib = 0, us = 0;
  if (!(line >> ms >> kib >> us))
    throw std::runtime_error("meshbus-floor-crowd says: " + line.str());
  return {{"ms", ms}, {"kib_per_peer", kib}, {"p50_us", us}};
}

/// Watches some peers and is told when they are gone.
class Watcher {
 public:
  Watcher(std::span<const ProcId> peers, const std::string& endpoint) : waits_for_(peers.size()) {
    Session::Options session;
    session.endpoint = endpoint;
    session.hello.peer = must(Name::make("client")).to_string();
    session.hello.kind = wire::PeerKind::launcher;
    session.hello.incarnation = random_u64();
    Dispatcher handlers;
    handlers.on<wire::Gone>(wire::Role::broker,
                            [this](const Request&, const wire::Gone&) { ++gone_; });
    Bus::Events events;
    events.on_refused = [](const Error& error) { throw std::runtime_error(error.to_string()); };
    bus_.emplace(reactor_, std::move(session), std::move(handlers), std::move(events));
    turn_until([this] { return bus_->is_up(); }, "the broker answers");
    std::size_t answered = 0;
    for (const ProcId& peer : peers) {
      wire::WatchT watch;
      watch.proc = peer.to_string();
      bus_->request(Destination::to_broker(), std::move(watch), kGoneLimit,
                    [&answered](Result<ControlMessage> answer) {
                      must(std::move(answer));
                      ++answered;
                    });
    }
    turn_until([&] { return answered == waits_for_; }, "all are watched");
  }
  void wait_gone() {
    turn_until([this] { return gone_ >= waits_for_; }, "all are gone");
  }

 private:
  template <typename Predicate>
  void turn_until(const Predicate& predicate, const std::string& what) {
    const auto give_up = Clock::now() + kGoneLimit;
    while (!predicate()) {
      reactor_.turn(std::chrono::seconds(1));
      throw_if_interrupted();
      if (Clock::now() > give_up) throw std::runtime_error("in vain: until " + what);
    }
  }

  Reactor reactor_;
  std::size_t waits_for_;
  std::size_t gone_ = 0;
  std::optional<Bus> bus_;
};

Figures brokered_once(std::size_t peers, std::size_t count) {
  const Brokers broker(1, BrokerLink::tcp);
  check_descriptors(peers, broker.pid(0));
  Crowd crowd(kCrowdProgram, broker.endpoint(0), peers);
  const std::size_t before = memory_of(broker.pid(0));
  const std::chrono::duration<double, std::milli> took = crowd.join();
  const double kib = static_cast<double>(memory_of(broker.pid(0)) - before) / 1024;
  const auto told = fan_out(crowd, broker.endpoint(0), {}, 64, count);
  const std::vector<ProcId> all = crowd.peers();
  std::vector<std::unique_ptr<Watcher>> watchers;
  for (std::size_t i = 0; i < all.size(); i += kMostWatched)
    watchers.push_back(std::make_unique<Watcher>(
        std::span(all).subspan(i, std::min(kMostWatched, all.size() - i)), broker.endpoint(0)));
  const auto begin = Clock::now();
  for (const pid_t pid : crowd.pids()) ::kill(pid, SIGKILL);
  for (const auto& watcher : watchers) watcher->wait_gone();
  const std::chrono::duration<double, std::milli> gone = Clock::now() - begin;
  return {{"ms", took.count()},
          {"kib_per_peer", kib / static_cast<double>(peers)},
          {"p50_us", told.p50_us},
          {"gone_ms", gone.count()}};
}

}  // namespace

Case peers_case(std::size_t peers, std::size_t count) {
  Case one{.size = static_cast<double>(peers), .unit = "peers", .sides = {}, .bars = {}};
  one.sides = {
      {"bare", Part::floor, "DEALERs of a bare ROUTER: they come, each is sent 64 B",
       [=] { return bare_once(peers, count); }},
      {"broker", Part::ours, "peers of a broker: they register, each is sent 64 B, all are killed",
       [=] { return brokered_once(peers, count); }}};
  one.bars = {{"ms", "broker", "bare", Direction::at_most, 2, 1.2},
              {"p50_us", "broker", "bare", Direction::at_most, 1.3, 1},
              {"kib_per_peer", "broker", "", Direction::at_most, 40, 30}};
  if (peers == 1000) one.bars.push_back({"gone_ms", "broker", "", Direction::at_most, 150, 60});
  return one;
}

int run_peers(const Settings& settings, const Amounts& amounts) {
  Comparison comparison(
      "peers", "N peers of one broker: they register, each gets a message, all are killed at once",
      settings);
  for (const std::size_t peers : amounts.sizes) comparison.add(peers_case(peers, amounts.count));
  comparison.fit("ms");
  comparison.fit("p50_us");
  return comparison.run();
}

}  // namespace meshbus::bench
