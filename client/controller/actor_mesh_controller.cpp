#include "client/controller/actor_mesh_controller.h"

#include <algorithm>

#include "wire/codes_generated.h"

namespace meshbus {

// --- What comes. ---

void ActorMeshController::note_standing(std::uint64_t number, Rank& rank) {
  const auto standing = rank.find_standing(silent_.contains(rank.host));
  --counts_[static_cast<std::size_t>(rank.standing)];
  ++counts_[static_cast<std::size_t>(standing)];
  rank.standing = standing;
  if (standing == Standing::unasked) {
    unasked_.insert(number);
  } else {
    unasked_.erase(number);
  }
}

void ActorMeshController::set_state(std::uint64_t number, Rank& rank, ActorRecord::End next,
                                    Time now) {
  rank.state = next.state;
  rank.exit_report = std::move(next.exit_report);
  note_standing(number, rank);
  if (rank.has_ended()) {
    events_.queue().add_end(make_event(rank), now);
  } else {
    events_.queue().add(make_event(rank));
  }
}

void ActorMeshController::end_with_proc(std::uint64_t number, Rank& rank, Time now) {
  rank.actor = nullptr;
  set_state(number, rank, rank.end_with_proc(number), now);
}

void ActorMeshController::take_proc(const WatchEvent& event, Time now) {
  const auto number = event.rank.rank();
  if (event.region != nullptr) events_.set_region(event.region);
  const auto [found, is_new] = ranks_.try_emplace(number);
  auto& rank = found->second;
  if (is_new) {
    ++counts_[static_cast<std::size_t>(rank.standing)];
    rank.host = event.host;
    rank_of_.emplace(ProcId(event.host, proc_name(name_.mesh(), number)).key(), number);
  } else if (rank.proc.incarnation() != event.rank.incarnation()) {
    // Another incarnation of the proc has none of these actors.
    events_.queue().release(number);
    Rank fresh;
    fresh.host = rank.host;
    fresh.standing = rank.standing;
    rank = std::move(fresh);
  }
  rank.proc = event.rank;
  if (is_terminal(event.rank.state())) {
    rank.proc_exit_report = event.exit_report;
    if (rank.state && !rank.has_ended()) end_with_proc(number, rank, now);
  } else {
    have_procs_ended_ = false;
    questions_.add(number);
  }
  note_standing(number, rank);
}

void ActorMeshController::take_silence(const HostAddr& host, bool is_silent,
                                       const std::string& problem) {
  const bool has_changed =
      is_silent ? silent_.emplace(host, problem).second : silent_.erase(host) != 0;
  if (!has_changed) return;
  bool is_here = false;
  for (auto& [number, rank] : ranks_) {
    if (rank.host != host) continue;
    is_here = true;
    note_standing(number, rank);
    if (rank.stream.is_done()) rank.stream.reopen();
    if (!is_silent) questions_.add(number);
  }
  if (is_here) events_.add_host(host, is_silent, problem);
}

ActorMeshController::Actions ActorMeshController::procs_told(const std::vector<WatchEvent>& events,
                                                             Time now) {
  for (const auto& event : events) {
    switch (event.kind) {
      case WatchEvent::Kind::state: take_proc(event, now); break;
      case WatchEvent::Kind::host_unreachable: take_silence(event.host, true, event.problem); break;
      case WatchEvent::Kind::host_back: take_silence(event.host, false, {}); break;
      case WatchEvent::Kind::ended: have_procs_ended_ = true; break;
      default: break;
    }
  }
  return settle(now);
}

void ActorMeshController::take_actor(std::uint64_t number, Rank& rank,
                                     const std::shared_ptr<const wire::ActorStateT>& actor,
                                     Time now) {
  // Failures of children are their parents' business.
  if (actor->pid != 0 || actor->name != name_.actor().to_string()) return;
  auto next = rank.end_or_state(*actor, number);
  if (!next || rank.has_ended()) return;
  if (rank.state && actor->generation <= rank.state->generation()) return;
  has_seen_ = true;
  is_slice_ = is_slice_ || actor->create_rank != number;
  rank.is_answered = true;
  rank.actor = actor;
  set_state(number, rank, std::move(*next), now);
  if (rank.has_ended()) return;
  questions_.add(number);
  // It was overtaken by the end of its proc.
  if (is_terminal(rank.proc.state())) end_with_proc(number, rank, now);
}

void ActorMeshController::take_list(std::uint64_t number, Rank& rank, const ActorUpdate& update,
                                    Time now) {
  for (const auto& actor : update.actors) take_actor(number, rank, actor, now);
  const bool has_it = std::any_of(update.actors.begin(), update.actors.end(),
                                  [](const auto& actor) { return actor->pid == 0; });
  if (has_it || is_terminal(rank.proc.state())) return;
  if (!rank.state) {
    if (!std::exchange(rank.is_answered, true)) absent_since_ = now;
    note_standing(number, rank);
  } else if (!rank.has_ended()) {
    // A proc with very many ended actors forgets them.
    auto forgotten = std::make_shared<wire::ActorStateT>(*rank.actor);
    forgotten->status = wire::StatusKind::failed;
    ++forgotten->generation;
    forgotten->reason = "its proc does not know it any more: it has ended, and how is not known";
    take_actor(number, rank, forgotten, now);
  }
}

ActorMeshController::Actions ActorMeshController::pushed(std::uint64_t proc_key,
                                                         std::uint64_t host_key,
                                                         std::uint64_t incarnation,
                                                         const ActorUpdate& update, Time now) {
  const auto found = rank_of_.find(proc_key);
  if (found == rank_of_.end()) return {};
  auto& rank = ranks_.at(found->second);
  if (rank.host.key() != host_key || rank.proc.incarnation() != incarnation) return {};
  for (const auto& actor : update.actors) take_actor(found->second, rank, actor, now);
  return settle(now);
}

ActorMeshController::Actions ActorMeshController::answered(const Order& order,
                                                           const HostAnswer& answer, Time now) {
  const bool is_stream = order.kind == Order::Kind::stream;
  if (is_stream) questions_.end(order.rank, order.incarnation);
  const auto found = ranks_.find(order.rank);
  if (found != ranks_.end() && found->second.proc.incarnation() == order.incarnation) {
    auto& rank = found->second;
    const auto* const update = answer ? std::get_if<ActorUpdate>(&*answer) : nullptr;
    const bool is_none = !answer && !is_stream && answer.error().code() == ErrorCode::not_exist;
    (is_stream ? rank.stream : rank.stop).on_answer(update != nullptr || is_none);
    if (update != nullptr) {
      rank.has_failed = false;
      take_list(order.rank, rank, *update, now);
    } else if (!is_none) {
      questions_.add_later(now + MeshController::kAskAgain, order.rank);
    }
    const bool is_failure = !answer && !is_none && !is_silence(answer.error().code());
    if (is_failure && !std::exchange(rank.has_failed, true))
      events_.add_failed_query(
          rank.host, "rank " + std::to_string(order.rank) + ": " + answer.error().to_string());
  }
  if (answer) return settle(now);
  // A question that cannot be sent is answered before the call that asked returns: the next ones
  // wait for turn().
  Actions actions;
  events_.take(actions.events, overall(), now);
  return actions;
}

ActorMeshController::Actions ActorMeshController::poll(Time now) {
  for (auto& [number, rank] : ranks_) {
    if (rank.stream.is_done()) rank.stream.reopen();
    questions_.add(number);
  }
  return settle(now);
}

ActorMeshController::Actions ActorMeshController::stop(wire::StopProcsT order, Time now) {
  stop_ = std::move(order);
  for (auto& [number, rank] : ranks_) {
    rank.stop.reopen();
    questions_.add(number);
  }
  return settle(now);
}

ActorMeshController::Actions ActorMeshController::turn(Time now) {
  return settle(now);
}

// --- What there is to say and to ask. ---

WatchEvent ActorMeshController::make_event(const Rank& rank) const {
  auto event = events_.make(rank.host, *rank.state, rank.exit_report);
  event.actor = rank.actor;
  return event;
}

bool ActorMeshController::is_over(Time now) const {
  if (ranks_.empty() || count(Standing::unknown) != 0 || live() != 0) return false;
  if (have_procs_ended_) return true;
  if (!has_seen_ || ranks_.size() < size()) return false;
  // Those without one may still get it.
  return count(Standing::absent) == 0 || now - absent_since_ >= MeshController::kAbsenceLimit;
}

bool ActorMeshController::wants_stop(std::uint64_t number, const Rank& rank) const {
  if (!stop_ || !rank.stop.is_open() || !rank.state) return false;
  const auto& blocks = stop_->ranks;
  return blocks.empty() || std::any_of(blocks.begin(), blocks.end(), [number](const auto& block) {
           return block.begin() <= number && number < block.end();
         });
}

void ActorMeshController::ask(std::uint64_t number, Rank& rank, Actions& actions) {
  if (!rank.can_ask(silent_.contains(rank.host))) return;
  const auto incarnation = rank.proc.incarnation();
  if (wants_stop(number, rank)) {
    rank.stop.ask();
    actions.orders.push_back({Order::Kind::stop, number, rank.host, incarnation});
  }
  if (!rank.stream.is_open()) return;
  rank.stream.ask();
  questions_.begin(number, incarnation);
  actions.orders.push_back({Order::Kind::stream, number, rank.host, incarnation});
}

ActorMeshController::Actions ActorMeshController::settle(Time now) {
  Actions actions;
  settled_ = now;
  // Procs that ended unasked had the actor, since their peers have it.
  if (has_seen_ && !is_slice_) {
    for (const auto number : std::exchange(unasked_, {}))
      end_with_proc(number, ranks_.at(number), now);
  }
  events_.take(actions.events, overall(), now);
  if (!ranks_.empty() && events_.add_end(is_over(now), ranks_.begin()->second.host))
    events_.take(actions.events, overall(), now);
  while (const auto number = questions_.take(now)) ask(*number, ranks_.at(*number), actions);
  return actions;
}

std::optional<ActorMeshController::Time> ActorMeshController::next_due() const {
  auto next = questions_.next_due(settled_);
  const auto over = absent_since_ + MeshController::kAbsenceLimit;
  const bool may_be_over = has_seen_ && is_monitored() && count(Standing::absent) != 0;
  if (may_be_over && over > settled_) next = next ? std::min(*next, over) : over;
  return next;
}

Status::Kind ActorMeshController::overall() const {
  if (failed() != 0) return Status::Kind::failed;
  if (count(Standing::live) != 0) return Status::Kind::running;
  const auto open = count(Standing::unheard) + count(Standing::unknown) + count(Standing::unasked);
  if (open != 0 || ranks_.size() < size()) return Status::Kind::unknown;
  return has_seen_ ? Status::Kind::stopped : Status::Kind::not_exist;
}

StatusOverlay ActorMeshController::statuses() const {
  StatusOverlay statuses;
  for (const auto& [number, rank] : ranks_) {
    Status status;
    if (rank.standing == Standing::absent || rank.standing == Standing::never)
      status = Status::Kind::not_exist;
    if (rank.state && rank.standing != Standing::unheard)
      status = status_of(*rank.state, rank.exit_report.get());
    statuses.set(number, number + 1, status);
  }
  return statuses;
}

std::vector<WatchEvent> ActorMeshController::known(const RankSet& ranks) const {
  std::vector<WatchEvent> events;
  std::map<HostAddr, std::string> silent;
  for (const auto& [number, rank] : ranks_) {
    if (const auto found = silent_.find(rank.host); found != silent_.end()) silent.insert(*found);
    // Events that are not out yet follow in their turn.
    const bool is_meant = ranks.empty() || contains(ranks, number);
    if (!is_meant || !rank.state || events_.queue().holds(number)) continue;
    events.push_back(make_event(rank));
  }
  const auto ended_on = ranks_.empty() ? HostAddr::local(0) : ranks_.begin()->second.host;
  return events_.standing(std::move(events), silent, ended_on, overall());
}

}  // namespace meshbus
