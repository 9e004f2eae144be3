// A subscriber that goes from one controller of a pair to another one hears each state of each rank
// once, in order, whatever it had heard from the one before.
#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "client/controller/event_history.h"
#include "client/controller/watch_feed.h"
#include "wire/supervision_generated.h"

using namespace std::chrono_literals;
using namespace meshbus;

namespace {

using Time = EventHistory::Time;
using HistoryState = wire::ProcState;
/// Rank, attempt, state.
using Seen = std::tuple<std::uint64_t, std::uint64_t, HistoryState>;

WatchEvent rank_event(std::uint64_t rank, std::uint64_t attempt, std::uint64_t generation,
                      HistoryState state) {
  WatchEvent event;
  event.mesh = "m-13Se1Maqzryj";
  event.host = *HostAddr::parse("tcp:h" + std::to_string(rank % 2) + ":7420");
  event.rank = {
      rank,  generation,           1000 * (rank + 1) + attempt,        1, 0, 42, 0, state, 0,
      false, wire::StopStep::none, static_cast<std::uint32_t>(attempt)};
  if (is_terminal(state)) {
    auto report = std::make_shared<wire::ExitReportT>();
    report->rank = rank;
    report->reason = "end " + std::to_string(attempt);
    event.exit_report = std::move(report);
  }
  return event;
}

/// A controller: it observes ranks, remembers, and says to its subscriber what it sees.
struct Observer {
  std::deque<WatchEvent> to_see;
  EventHistory history;
  std::map<std::uint64_t, WatchEvent> last;
  std::uint64_t sequence = 0;

  std::vector<wire::MeshEventT> say(const std::vector<WatchEvent>& events, bool is_snapshot,
                                    bool is_replayed) {
    auto messages = to_messages(events, 1, is_snapshot);
    for (auto& message : messages) {
      message.sequence = ++sequence;
      message.replayed = is_replayed;
    }
    return messages;
  }
  /// What was under way to it comes, up to so much; what there is to say of it.
  std::vector<WatchEvent> see(std::size_t most, Time now) {
    std::vector<WatchEvent> events;
    for (; most > 0 && !to_see.empty(); --most) {
      events.push_back(to_see.front());
      last.insert_or_assign(to_see.front().rank.rank(), to_see.front());
      to_see.pop_front();
    }
    history.add(events, now);
    return events;
  }
  std::vector<wire::MeshEventT> subscribed() {
    sequence = 0;
    auto messages = say(history.events(), false, true);
    std::vector<WatchEvent> present;
    for (const auto& [rank, event] : last) present.push_back(event);
    for (auto& message : say(present, true, false)) messages.push_back(std::move(message));
    return messages;
  }
};

void check_moves(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  constexpr std::uint64_t kRanks = 4;
  std::vector<Observer> observers(2 + seed % 2);
  std::size_t current = 0;
  WatchFeed feed;
  std::map<std::uint64_t, std::vector<Seen>> truth;
  std::map<std::uint64_t, std::vector<Seen>> heard;
  std::vector<std::string> reasons;
  const auto take = [&](const std::vector<wire::MeshEventT>& messages, std::size_t most) {
    for (const auto& message : messages) {
      if (most-- == 0) return;
      for (const auto& event : feed.on_event(message, Time(1s))) {
        heard[event.rank.rank()].emplace_back(event.rank.rank(), event.rank.restarts(),
                                              event.rank.state());
        if (event.exit_report != nullptr) reasons.push_back(event.exit_report->reason);
      }
    }
  };
  const auto move = [&](std::size_t to) {
    current = to;
    feed.restart();
    take(observers[current].subscribed(), SIZE_MAX);
  };
  struct Rank {
    std::uint64_t attempt = 0;
    std::uint64_t generation = 0;
    HistoryState state = HistoryState::failed;
  };
  std::vector<Rank> ranks(kRanks);
  std::size_t ends = 0;
  for (int step = 0; step < 300; ++step) {
    const auto number = random() % kRanks;
    auto& rank = ranks[number];
    switch (rank.state) {
      case HistoryState::starting: rank.state = HistoryState::ready; break;
      case HistoryState::ready:
        rank.state = random() % 2 == 0 ? HistoryState::failed : HistoryState::killed;
        ++ends;
        break;
      default:
        rank.state = HistoryState::starting;
        ++rank.attempt;
        break;
    }
    ++rank.generation;
    truth[number].emplace_back(number, rank.attempt, rank.state);
    const auto event = rank_event(number, rank.attempt, rank.generation, rank.state);
    for (auto& observer : observers) observer.to_see.push_back(event);
    for (std::size_t i = 0; i < observers.size(); ++i) {
      if (random() % 3 == 0) continue;
      const auto events = observers[i].see(random() % 4, Time(1s));
      // The last words of a controller that dies come in part.
      if (i == current) take(observers[i].say(events, false, false), SIZE_MAX);
    }
    if (random() % 20 != 0) continue;
    // The one that acts sees more, and dies while it says so.
    const auto rest = observers[current].see(3, Time(1s));
    take(observers[current].say(rest, false, false), random() % 3);
    move((current + 1) % observers.size());
  }
  take(observers[current].say(observers[current].see(SIZE_MAX, Time(1s)), false, false), SIZE_MAX);
  REQUIRE(heard == truth);
  REQUIRE(reasons.size() == ends);
}

}  // namespace

TEST_CASE(
    "event_history: a subscriber that goes from controller to controller hears each state of each "
    "rank once, in order") {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    CAPTURE(seed);
    check_moves(seed);
  }
}

TEST_CASE("event_history: remembers for some minutes, and what changes only") {
  EventHistory history;
  WatchEvent silent;
  silent.kind = WatchEvent::Kind::host_unreachable;
  const Time t0{1000s};
  history.add({rank_event(1, 1, 1, HistoryState::ready), silent}, t0);
  history.add({rank_event(1, 1, 2, HistoryState::failed)}, t0 + 4min);
  CHECK(history.events().size() == 2);
  history.add({}, t0 + 6min);
  REQUIRE(history.events().size() == 1);
  CHECK(history.events().front().rank.state() == HistoryState::failed);
}

TEST_CASE("watch_feed: a restart that is said again by another controller is told once") {
  WatchFeed feed;
  wire::MeshEventT event;
  event.mesh = "m-13Se1Maqzryj";
  event.host = "tcp:h1:7420";
  event.kind = wire::MeshEventKind::restarting;
  event.detail = "rank 1 is restarted in 0.1 s (restart 1 of 3)";
  event.restart_ranks = {{1, 2}};
  event.sequence = 1;
  CHECK(feed.on_event(event, Time(1s)).size() == 1);
  feed.restart();
  event.replayed = true;
  CHECK(feed.on_event(event, Time(2s)).empty());
  event.sequence = 2;
  event.detail = "rank 1 is restarted in 0.1 s (restart 2 of 3)";
  CHECK(feed.on_event(event, Time(2s)).size() == 1);
}
