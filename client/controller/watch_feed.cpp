#include "client/controller/watch_feed.h"

#include <algorithm>
#include <utility>

#include "common/wire/wire_region.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

constexpr std::uint64_t kMostMissing = 1000;
/// Restarts and sizes that are remembered, in case another controller says them again.
constexpr std::size_t kMostTold = 10'000;

WatchEvent::Kind kind_of(wire::MeshEventKind kind) {
  switch (kind) {
    case wire::MeshEventKind::host_unreachable: return WatchEvent::Kind::host_unreachable;
    case wire::MeshEventKind::host_back: return WatchEvent::Kind::host_back;
    case wire::MeshEventKind::query_failed: return WatchEvent::Kind::query_failed;
    case wire::MeshEventKind::ended: return WatchEvent::Kind::ended;
    case wire::MeshEventKind::restarting: return WatchEvent::Kind::restarting;
    case wire::MeshEventKind::given_up: return WatchEvent::Kind::given_up;
    case wire::MeshEventKind::resized: return WatchEvent::Kind::resized;
    default: return WatchEvent::Kind::state;
  }
}

std::shared_ptr<const Region> region_of(const wire::MeshEventT& event) {
  if (event.region == nullptr) return nullptr;
  auto region = Region::make(event.region->labels, event.region->offset, event.region->sizes,
                             event.region->strides);
  return region ? std::make_shared<const Region>(std::move(*region)) : nullptr;
}

}  // namespace

void WatchFeed::restart() {
  sequence_ = 0;
  missing_.clear();
  for (auto& [key, standing] : standing_) standing.sequence = 0;
  for (auto& [key, trouble] : troubles_) trouble.sequence = 0;
}

void WatchFeed::on_subscribed() {
  missing_.erase(missing_.begin(), missing_.upper_bound(asked_upto_));
}

void WatchFeed::miss(std::uint64_t first, std::uint64_t last) {
  // One of them is as good as all.
  for (auto number = std::max(first, last > kMostMissing ? last - kMostMissing : 0); number <= last;
       ++number)
    missing_.insert(number);
}

bool WatchFeed::note(std::uint64_t sequence) {
  if (sequence == 0) return true;  // an older controller does not count
  if (sequence <= sequence_) return missing_.erase(sequence) != 0;
  if (sequence > sequence_ + 1) miss(sequence_ + 1, sequence - 1);
  sequence_ = sequence;
  return true;
}

bool WatchFeed::Told::covers(const wire::RankState& state, const wire::MeshEventT& event) const {
  if (incarnation == state.incarnation()) return state.generation() <= generation;
  return host == event.host && state.restarts() < restarts;
}

bool WatchFeed::is_repeated(const wire::MeshEventT& event) {
  std::string key = event.mesh + " " + std::to_string(static_cast<int>(event.kind));
  for (const auto& block : event.restart_ranks)
    key += " " + std::to_string(block.begin()) + "-" + std::to_string(block.end());
  key += " " + event.detail;
  const bool is_known = told_once_.contains(key);
  if (told_once_.size() >= kMostTold) told_once_.clear();
  told_once_.insert(std::move(key));
  return event.replayed && is_known;
}

RankSet WatchFeed::new_restarts(const wire::MeshEventT& event, const RankSet& ranks) {
  std::vector<std::uint64_t> left;
  std::size_t at = 0;
  for (const auto& block : ranks) {
    for (auto rank = block.begin; rank < block.end; ++rank, ++at) {
      if (at == event.restarts.size()) return ranks;  // The controller does not count as we do.
      auto& told = restarts_told_[{event.mesh, rank}];
      const auto next = std::uint64_t{event.restarts[at]} + 1;
      if (std::exchange(told, std::max(told, next)) < next) left.push_back(rank);
    }
  }
  return to_rank_set(left);
}

void WatchFeed::forget(const std::string& mesh, const RankBlock& ranks) {
  const auto remove = [&](auto& map) {
    map.erase(map.lower_bound({mesh, ranks.begin}), map.lower_bound({mesh, ranks.end}));
  };
  remove(told_);
  remove(restarts_told_);
}

std::vector<WatchEvent> WatchFeed::on_other(const wire::MeshEventT& event, WatchEvent one) {
  if (event.kind == wire::MeshEventKind::query_failed) return {std::move(one)};
  if (event.kind == wire::MeshEventKind::restarting || event.kind == wire::MeshEventKind::resized) {
    if (is_repeated(event)) return {};
    if (event.kind == wire::MeshEventKind::restarting && !event.restarts.empty()) {
      one.ranks = new_restarts(event, one.ranks);
      if (one.ranks.empty()) return {};
    }
    // Ranks of these numbers that come again begin anew.
    if (event.went)
      for (const auto& block : one.ranks) forget(event.mesh, block);
    return {std::move(one)};
  }
  if (event.kind == wire::MeshEventKind::given_up) {
    // The whole state, too, has what was given up.
    if (!given_up_.emplace(event.mesh, event.detail).second) return {};
    return {std::move(one)};
  }
  const std::pair key(event.mesh,
                      event.kind == wire::MeshEventKind::ended ? std::string() : event.host);
  const auto found = standing_.find(key);
  if (found != standing_.end() && event.sequence < found->second.sequence) return {};  // overtaken
  const bool is_told = found != standing_.end() && found->second.kind == event.kind;
  standing_[key] = {event.kind, event.sequence};
  if (is_told && event.snapshot) return {};
  return {std::move(one)};
}

void WatchFeed::note_trouble(const wire::MeshEventT& event, const wire::RankTrouble& trouble) {
  if (trouble.trouble() > wire::Trouble::MAX) return;
  auto& troubled = troubles_[{event.mesh, trouble.rank()}];
  if (event.sequence < troubled.sequence) return;  // overtaken
  if (troubled.known.incarnation() != trouble.incarnation()) troubled.told = wire::Trouble::none;
  troubled.known = trouble;
  troubled.stuck.reset();
  for (const auto& stuck : event.stuck) {
    if (stuck->rank == trouble.rank())
      troubled.stuck = std::make_shared<const wire::StuckHandlerT>(*stuck);
  }
  troubled.sequence = event.sequence;
}

const WatchFeed::Troubled* WatchFeed::take_trouble(const std::string& mesh, std::uint64_t rank) {
  const std::pair key(mesh, rank);
  const auto state = told_.find(key);
  const auto found = troubles_.find(key);
  if (state == told_.end() || found == troubles_.end() || !state->second.is_ready) return nullptr;
  auto& troubled = found->second;
  if (troubled.known.incarnation() != state->second.incarnation ||
      troubled.told == troubled.known.trouble())
    return nullptr;
  troubled.told = troubled.known.trouble();
  return &troubled;
}

std::vector<WatchEvent> WatchFeed::on_event(const wire::MeshEventT& event, Time now) {
  heard_ = now;
  if (!note(event.sequence)) return {};
  WatchEvent one;
  one.kind = kind_of(event.kind);
  one.mesh = event.mesh;
  one.host = HostAddr::parse(event.host).value_or(HostAddr::local(0));
  one.problem = event.detail;
  one.went = event.went;
  for (const auto& block : event.restart_ranks) one.ranks.push_back({block.begin(), block.end()});
  one.generation = event.generation;
  one.overall = Status(static_cast<Status::Kind>(event.overall)).kind();
  if (one.kind != WatchEvent::Kind::state) return on_other(event, std::move(one));
  std::vector<WatchEvent> events;
  one.region = region_of(event);
  for (const auto& rank : event.ranks) {
    const std::pair key(event.mesh, rank.rank());
    const auto found = told_.find(key);
    if (found != told_.end() && found->second.covers(rank, event)) continue;
    told_[key] = {rank.incarnation(), rank.generation(), rank.state() == wire::ProcState::ready,
                  rank.restarts(), event.host};
    one.rank = rank;
    one.exit_report.reset();
    for (const auto& exit_report : event.exit_reports) {
      if (is_terminal(rank.state()) && exit_report->rank == rank.rank())
        one.exit_report = std::make_shared<const wire::ExitReportT>(*exit_report);
    }
    events.push_back(one);
  }
  // A state and what is wrong with it may overtake each other.
  std::set<std::uint64_t> touched;
  for (const auto& trouble : event.troubles) {
    note_trouble(event, trouble);
    touched.insert(trouble.rank());
  }
  for (const auto& rank : event.ranks) {
    if (!troubles_.empty()) touched.insert(rank.rank());
  }
  one.kind = WatchEvent::Kind::trouble;
  one.exit_report.reset();
  for (const auto number : touched) {
    const auto* const troubled = take_trouble(event.mesh, number);
    if (troubled == nullptr) continue;
    one.trouble = troubled->known;
    one.stuck = troubled->stuck;
    one.rank = wire::RankState();
    one.rank.mutate_incarnation(one.trouble.incarnation());
    one.rank.mutate_state(wire::ProcState::ready);
    one.rank.mutate_rank(number);
    events.push_back(one);
  }
  return events;
}

void WatchFeed::on_heartbeat(const wire::MeshHeartbeatT& heartbeat, Time now) {
  heard_ = now;
  ++heartbeats_;
  interval_ = std::chrono::milliseconds(heartbeat.interval_ms);
  if (heartbeat.sequence <= sequence_) return;
  miss(sequence_ + 1, heartbeat.sequence);
  sequence_ = heartbeat.sequence;
}

bool WatchFeed::should_ask_again(Time now) {
  if (missing_.empty() || (asked_ && now - *asked_ < kAskLimit)) return false;
  asked_ = now;
  asked_upto_ = sequence_;
  return true;
}

bool WatchFeed::is_silent(Time now) const {
  return heard_ && interval_.count() != 0 && now - *heard_ >= 2 * interval_;
}

}  // namespace meshbus
