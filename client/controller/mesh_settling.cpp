#include <algorithm>

#include "client/controller/mesh_controller.h"
#include "client/src/wire_reports.h"
#include "common/control.h"
#include "wire/ranks_generated.h"

/// What a MeshController has to say and to ask when it has taken what there was, and what it answers to who asks.
namespace meshbus {

WatchEvent MeshController::make_event(WatchEvent::Kind kind, const HostAddr& host) const {
  WatchEvent event;
  event.kind = kind;
  event.mesh = mesh_;
  event.host = host;
  event.region = region_;
  event.generation = generation_;
  event.overall = overall();
  return event;
}

WatchEvent MeshController::make_event(const Rank& rank) const {
  auto event = make_event(WatchEvent::Kind::state, *host_of_.at(rank.part));
  event.rank = rank.state;
  event.certificate = rank.certificate;
  return event;
}

WatchEvent MeshController::make_event(const Rank& rank, const wire::RankTrouble& trouble) const {
  auto event = make_event(rank);
  event.kind = WatchEvent::Kind::trouble;
  event.trouble = trouble;
  return event;
}

void MeshController::tell(Actions& actions, Time now) {
  const auto first = actions.events.size();
  for (auto& event : std::exchange(owed_, {})) actions.events.push_back(std::move(event));
  for (const auto number : std::exchange(changed_, {})) {
    auto& rank = ranks_.at(number);
    rank.is_told = true;
    actions.events.push_back(make_event(rank));
  }
  for (auto& [number, troubled] : troubles_) {
    if (troubled.told == troubled.known.trouble()) continue;
    troubled.told = troubled.known.trouble();
    actions.events.push_back(make_event(ranks_.at(number), troubled.known));
  }
  std::vector<WatchEvent> ends;
  for (auto entry = pending_.begin(); entry != pending_.end();) {
    auto& rank = ranks_.at(entry->first);
    auto& pending = entry->second;
    if (rank.certificate == nullptr && now < pending.noticed + certificate_limit) {
      if (now >= pending.ask) {
        rank.part->wants_state = true;
        pending.ask = now + ask_again;
      }
      ++entry;
      continue;
    }
    rank.is_told = true;
    --rank.part->untold;
    ends.push_back(make_event(rank));
    entry = pending_.erase(entry);
  }
  std::stable_sort(ends.begin(), ends.end(), is_earlier_end);
  std::move(ends.begin(), ends.end(), std::back_inserter(actions.events));
  for (auto event = actions.events.begin() + static_cast<std::ptrdiff_t>(first); event != actions.events.end(); ++event)
    event->generation = ++generation_;
}

bool MeshController::is_over(Time now) const {
  if (seen_ == 0 || live_ != 0 || !pending_.empty()) return false;
  // Who would begin new lives.
  const bool is_left =
      std::any_of(parts_.begin(), parts_.end(), [](const auto& entry) { return entry.second.owner && entry.second.owner->is_gone; });
  return std::all_of(parts_.begin(), parts_.end(), [&](const auto& entry) {
    const auto& here = entry.second;
    if (here.is_listed) return here.is_whole && (is_left || !here.owner || !here.owner->begins_anew);
    return here.absent_since && (seen_ >= size() || now - *here.absent_since >= absence_limit);
  });
}

bool MeshController::wants_stop(const Part& part) const {
  return stop_.has_value() && part.stop == Asked::no && part.live != 0;
}

bool MeshController::wants_stream(const Part& part) const {
  return part.stream == Asked::no && part.is_listed && (part.live != 0 || part.untold != 0 || !part.is_whole);
}

bool MeshController::wants_state(const Part& part) const {
  return part.wants_state && !part.is_state_asked && part.stream != Asked::waits;
}

void MeshController::ask(const HostAddr& host, Part& part, Actions& actions, Time now) {
  if (part.is_silent || now < part.ask_after) return;
  if (wants_stop(part)) {
    part.stop = Asked::waits;
    actions.orders.push_back({Order::Kind::stop, host});
  }
  if (wants_stream(part)) {
    part.stream = Asked::waits;
    actions.orders.push_back({Order::Kind::stream, host});
  }
  if (wants_state(part)) {
    part.is_state_asked = true;
    actions.orders.push_back({Order::Kind::state, host});
  }
}

void MeshController::settle(Actions& actions, Time now) {
  settled_ = now;
  tell(actions, now);
  if (const bool is_over_now = is_over(now); is_over_now != std::exchange(is_ended_, is_over_now) && is_over_now) {
    ++generation_;
    actions.events.push_back(make_event(WatchEvent::Kind::ended, parts_.begin()->first));
  }
  for (auto& [host, here] : parts_) ask(host, here, actions, now);
}

std::optional<MeshController::Time> MeshController::next_due() const {
  std::optional<Time> next;
  const auto consider = [&next](Time time) { next = next ? std::min(*next, time) : time; };
  for (const auto& [number, pending] : pending_) consider(std::min(pending.ask, pending.noticed + certificate_limit));
  for (const auto& [host, here] : parts_) {
    if (!here.is_silent && (wants_stop(here) || wants_stream(here) || wants_state(here))) consider(here.ask_after);
    if (here.absent_since && *here.absent_since + absence_limit > settled_) consider(*here.absent_since + absence_limit);
  }
  return next;
}

bool MeshController::is_forgotten() const noexcept {
  return ranks_.empty() && std::none_of(parts_.begin(), parts_.end(), [](const auto& entry) { return entry.second.is_listed; });
}

std::uint64_t MeshController::live_on(const HostAddr& host) const {
  const auto found = parts_.find(host);
  return found == parts_.end() ? 0 : found->second.live;
}

const OwnerNews* MeshController::owner() const {
  for (const auto& [host, here] : parts_) {
    if (here.owner) return &*here.owner;
  }
  return nullptr;
}

bool MeshController::is_owned_by(const std::set<std::string>& names) const {
  bool is_owned = false;
  for (const auto& [host, here] : parts_) {
    if (!here.owner) continue;
    if (here.owner->is_gone || !names.contains(here.owner->owner)) return false;
    is_owned = true;
  }
  return is_owned;
}

std::chrono::milliseconds MeshController::lease_on(const HostAddr& host) const {
  const auto found = parts_.find(host);
  return found == parts_.end() || !found->second.owner ? std::chrono::milliseconds(0) : found->second.owner->lease;
}

Status::Kind MeshController::overall() const {
  if (failed_ != 0) return Status::Kind::failed;
  const bool is_heard =
      std::any_of(parts_.begin(), parts_.end(), [](const auto& entry) { return entry.second.live != 0 && !entry.second.is_silent; });
  if (is_heard) return Status::Kind::running;
  const bool is_known = std::all_of(parts_.begin(), parts_.end(), [](const auto& entry) {
    return entry.second.is_listed ? entry.second.is_whole : entry.second.absent_since.has_value();
  });
  if (seen_ == 0 || live_ != 0 || is_partial_ || !is_known) return Status::Kind::unknown;
  return Status::Kind::stopped;
}

StatusOverlay MeshController::statuses() const {
  StatusOverlay statuses;
  for (const auto& [number, rank] : ranks_) {
    RankReport report;
    copy_state(rank.state, report);
    if (rank.certificate != nullptr) report.reason = cut_text(rank.certificate->reason, 256);
    statuses.set(number, number + 1, rank.is_live && rank.part->is_silent ? Status() : report.status());
  }
  return statuses;
}

std::vector<WatchEvent> MeshController::known(const RankSet& ranks) const {
  std::vector<WatchEvent> events;
  std::vector<WatchEvent> ends;
  for (const auto& [number, rank] : ranks_) {
    // What was not told yet will be, in its turn.
    if (!rank.is_told || (!ranks.empty() && !contains(ranks, number))) continue;
    (rank.is_live ? events : ends).push_back(make_event(rank));
    // Also one that is over: who listens may have missed that.
    if (const auto found = troubles_.find(number); found != troubles_.end()) events.push_back(make_event(rank, found->second.known));
  }
  std::stable_sort(ends.begin(), ends.end(), is_earlier_end);
  std::move(ends.begin(), ends.end(), std::back_inserter(events));
  for (const auto& [host, here] : parts_) {
    if (!here.is_silent || is_ended_) continue;
    events.push_back(make_event(WatchEvent::Kind::host_unreachable, host));
    events.back().problem = here.problem;
  }
  if (is_ended_) events.push_back(make_event(WatchEvent::Kind::ended, parts_.begin()->first));
  return events;
}

}  // namespace meshbus
