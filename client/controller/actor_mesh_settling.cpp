#include <algorithm>

#include "client/controller/actor_mesh_controller.h"
#include "client/src/wire_reports.h"
#include "common/control.h"
#include "wire/codes_generated.h"

/// What an ActorMeshController has to say and to ask when it has taken what there was, and what it answers to who asks.
namespace meshbus {

WatchEvent ActorMeshController::make_event(WatchEvent::Kind kind, const HostAddr& host) const {
  WatchEvent event;
  event.kind = kind;
  event.mesh = text_;
  event.host = host;
  event.region = region_;
  event.generation = generation_;
  event.overall = overall();
  return event;
}

WatchEvent ActorMeshController::make_event(const Rank& rank) const {
  auto event = make_event(WatchEvent::Kind::state, rank.host);
  event.rank = *rank.state;
  event.certificate = rank.certificate;
  event.actor = rank.actor;
  return event;
}

void ActorMeshController::tell(Actions& actions) {
  const auto first = actions.events.size();
  for (auto& event : std::exchange(owed_, {})) actions.events.push_back(std::move(event));
  std::vector<WatchEvent> ends;
  for (const auto number : std::exchange(changed_, {})) {
    auto& rank = ranks_.at(number);
    rank.is_told = true;
    (is_terminal(rank.state->state()) ? ends : actions.events).push_back(make_event(rank));
  }
  std::stable_sort(ends.begin(), ends.end(), is_earlier_end);
  std::move(ends.begin(), ends.end(), std::back_inserter(actions.events));
  for (auto event = actions.events.begin() + static_cast<std::ptrdiff_t>(first); event != actions.events.end(); ++event)
    event->generation = ++generation_;
}

bool ActorMeshController::is_over(Time now) const {
  if (ranks_.empty() || count(Standing::unknown) != 0 || live() != 0) return false;
  if (have_procs_ended_) return true;
  if (!has_seen_ || ranks_.size() < size()) return false;
  // Those that are still to come.
  return count(Standing::absent) == 0 || now - absent_since_ >= MeshController::absence_limit;
}

bool ActorMeshController::can_ask(const Rank& rank) const {
  return rank.proc.state() == wire::ProcState::ready && !silent_.contains(rank.host) && (!rank.state || !is_terminal(rank.state->state()));
}

bool ActorMeshController::wants_stop(std::uint64_t number, const Rank& rank) const {
  if (!stop_ || rank.stop != Asked::no || !rank.state) return false;
  const auto& blocks = stop_->ranks;
  return blocks.empty() || std::any_of(blocks.begin(), blocks.end(), [number](const wire::RankInterval& block) {
           return block.begin() <= number && number < block.end();
         });
}

void ActorMeshController::ask(std::uint64_t number, Rank& rank, Actions& actions) {
  if (!can_ask(rank)) return;
  if (wants_stop(number, rank)) {
    rank.stop = Asked::waits;
    actions.orders.push_back({Order::Kind::stop, number, rank.host, rank.proc.incarnation()});
  }
  if (rank.stream != Asked::no) return;
  rank.stream = Asked::waits;
  asked_.emplace(number, rank.proc.incarnation());
  actions.orders.push_back({Order::Kind::stream, number, rank.host, rank.proc.incarnation()});
}

void ActorMeshController::settle(Actions& actions, Time now) {
  settled_ = now;
  // Their peers have it, so they had it.
  if (has_seen_ && !is_slice_) {
    for (const auto number : std::exchange(unasked_, {})) end_with_proc(number, ranks_.at(number));
  }
  tell(actions);
  if (const bool is_over_now = is_over(now); is_over_now != std::exchange(is_ended_, is_over_now) && is_over_now) {
    ++generation_;
    actions.events.push_back(make_event(WatchEvent::Kind::ended, ranks_.begin()->second.host));
  }
  for (; !later_.empty() && later_.begin()->first <= now; later_.erase(later_.begin())) to_ask_.insert(later_.begin()->second);
  while (!to_ask_.empty() && asked_.size() < most_asked) {
    const auto number = *to_ask_.begin();
    to_ask_.erase(to_ask_.begin());
    ask(number, ranks_.at(number), actions);
  }
}

std::optional<ActorMeshController::Time> ActorMeshController::next_due() const {
  std::optional<Time> next;
  if (!later_.empty()) next = later_.begin()->first;
  if (!to_ask_.empty() && asked_.size() < most_asked) next = settled_;
  const auto over = absent_since_ + MeshController::absence_limit;
  if (has_seen_ && !is_ended_ && count(Standing::absent) != 0 && over > settled_) next = next ? std::min(*next, over) : over;
  return next;
}

Status::Kind ActorMeshController::overall() const {
  if (failed() != 0) return Status::Kind::failed;
  if (count(Standing::live) != 0) return Status::Kind::running;
  if (count(Standing::unheard) + count(Standing::unknown) + count(Standing::unasked) != 0 || ranks_.size() < size())
    return Status::Kind::unknown;
  return has_seen_ ? Status::Kind::stopped : Status::Kind::not_exist;
}

StatusOverlay ActorMeshController::statuses() const {
  StatusOverlay statuses;
  for (const auto& [number, rank] : ranks_) {
    Status status;
    if (rank.standing == Standing::absent || rank.standing == Standing::never) status = Status::Kind::not_exist;
    if (rank.state && rank.standing != Standing::unheard) {
      RankReport report;
      copy_state(*rank.state, report);
      if (rank.certificate != nullptr) report.reason = cut_text(rank.certificate->reason, 256);
      status = report.status();
    }
    statuses.set(number, number + 1, status);
  }
  return statuses;
}

std::vector<WatchEvent> ActorMeshController::known(const RankSet& ranks) const {
  std::vector<WatchEvent> events;
  std::vector<WatchEvent> ends;
  for (const auto& [number, rank] : ranks_) {
    // What was not told yet will be, in its turn.
    if (!rank.is_told || (!ranks.empty() && !contains(ranks, number))) continue;
    (is_terminal(rank.state->state()) ? ends : events).push_back(make_event(rank));
  }
  std::stable_sort(ends.begin(), ends.end(), is_earlier_end);
  std::move(ends.begin(), ends.end(), std::back_inserter(events));
  for (const auto& [host, problem] : silent_) {
    const bool is_here = std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& entry) { return entry.second.host == host; });
    if (!is_here || is_ended_) continue;
    events.push_back(make_event(WatchEvent::Kind::host_unreachable, host));
    events.back().problem = problem;
  }
  if (is_ended_) events.push_back(make_event(WatchEvent::Kind::ended, ranks_.begin()->second.host));
  return events;
}

}  // namespace meshbus
