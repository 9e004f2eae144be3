#include "client/controller/actor_mesh_controller.h"

#include <algorithm>

#include "client/src/wire_reports.h"
#include "common/wire/control.h"
#include "wire/actors_generated.h"
#include "wire/codes_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

/// How far an actor has come, in the terms of procs; nothing for what this release does not know.
std::optional<wire::ProcState> state_of(wire::StatusKind status) {
  switch (status) {
    case wire::StatusKind::initializing: return wire::ProcState::starting;
    case wire::StatusKind::running: return wire::ProcState::ready;
    case wire::StatusKind::stopping: return wire::ProcState::stopping;
    case wire::StatusKind::stopped: return wire::ProcState::stopped;
    case wire::StatusKind::failed: return wire::ProcState::failed;
    default: return std::nullopt;
  }
}

std::string words_of(const wire::ActorStateT& actor) {
  std::string text = actor.reason;
  if (actor.status == wire::StatusKind::failed && !actor.message.empty()) text = "in message " + actor.message + ": " + text;
  for (const auto& cause : actor.causes) text += "; because: " + cause;
  return cut_text(std::move(text));
}

std::string words_of(const wire::RankState& proc, const wire::ExitReportT* exit_report) {
  RankReport report;
  copy_state(proc, report);
  if (exit_report != nullptr) report.reason = exit_report->reason;
  return cut_text("its proc has ended: " + report.words());
}

}  // namespace

// --- What comes. ---

ActorMeshController::Standing ActorMeshController::find_standing(const Rank& rank) const {
  if (rank.state && is_failure(*rank.state)) return Standing::failed;
  if (rank.state && is_terminal(rank.state->state())) return Standing::stopped;
  if (rank.state) return silent_.contains(rank.host) ? Standing::unheard : Standing::live;
  if (is_terminal(rank.proc.state())) return rank.is_answered ? Standing::never : Standing::unasked;
  return rank.is_answered ? Standing::absent : Standing::unknown;
}

void ActorMeshController::note_standing(std::uint64_t number, Rank& rank) {
  const auto standing = find_standing(rank);
  --counts_[static_cast<std::size_t>(rank.standing)];
  ++counts_[static_cast<std::size_t>(standing)];
  rank.standing = standing;
  if (standing == Standing::unasked) {
    unasked_.insert(number);
  } else {
    unasked_.erase(number);
  }
}

void ActorMeshController::set_state(std::uint64_t number, Rank& rank, const wire::RankState& state,
                                    std::shared_ptr<const wire::ExitReportT> exit_report, Time now) {
  rank.state = state;
  rank.exit_report = std::move(exit_report);
  note_standing(number, rank);
  if (is_terminal(state.state())) {
    reports_.add_end(make_event(rank), now);
  } else {
    reports_.add(make_event(rank));
  }
}

void ActorMeshController::end_with_proc(std::uint64_t number, Rank& rank, Time now) {
  auto state = rank.proc;
  state.mutate_generation(1 + (rank.state ? rank.state->generation() : 0));
  state.mutate_state(is_failure(rank.proc) ? wire::ProcState::failed : wire::ProcState::stopped);
  auto exit_report = rank.proc_exit_report != nullptr ? std::make_shared<wire::ExitReportT>(*rank.proc_exit_report)
                                                      : std::make_shared<wire::ExitReportT>();
  exit_report->rank = number;
  exit_report->reason = words_of(rank.proc, rank.proc_exit_report.get());
  rank.actor = nullptr;
  set_state(number, rank, state, std::move(exit_report), now);
}

void ActorMeshController::take_proc(const WatchEvent& event, Time now) {
  const auto number = event.rank.rank();
  if (event.region != nullptr) region_ = event.region;
  const auto [found, is_new] = ranks_.try_emplace(number);
  auto& rank = found->second;
  if (is_new) {
    ++counts_[static_cast<std::size_t>(rank.standing)];
    rank.host = event.host;
    rank_of_.emplace(ProcId(event.host, proc_name(name_.mesh(), number)).key(), number);
  } else if (rank.proc.incarnation() != event.rank.incarnation()) {
    // Another life of the proc, which has nothing of the former one's.
    reports_.release(number);
    Rank fresh;
    fresh.host = rank.host;
    fresh.standing = rank.standing;
    rank = std::move(fresh);
  }
  rank.proc = event.rank;
  if (is_terminal(event.rank.state())) {
    rank.proc_exit_report = event.exit_report;
    if (rank.state && !is_terminal(rank.state->state())) end_with_proc(number, rank, now);
  } else {
    have_procs_ended_ = false;
    to_ask_.insert(number);
  }
  note_standing(number, rank);
}

void ActorMeshController::take_silence(const HostAddr& host, bool is_silent, const std::string& problem) {
  if (is_silent ? !silent_.emplace(host, problem).second : silent_.erase(host) == 0) return;
  bool is_here = false;
  for (auto& [number, rank] : ranks_) {
    if (rank.host != host) continue;
    is_here = true;
    note_standing(number, rank);
    if (rank.stream == Asked::done) rank.stream = Asked::no;
    if (!is_silent) to_ask_.insert(number);
  }
  if (!is_here || !is_monitored()) return;
  auto event = make_event(is_silent ? WatchEvent::Kind::host_unreachable : WatchEvent::Kind::host_back, host);
  event.problem = problem;
  reports_.add(std::move(event));
}

ActorMeshController::Actions ActorMeshController::procs_told(const std::vector<WatchEvent>& events, Time now) {
  Actions actions;
  for (const auto& event : events) {
    switch (event.kind) {
      case WatchEvent::Kind::state: take_proc(event, now); break;
      case WatchEvent::Kind::host_unreachable: take_silence(event.host, true, event.problem); break;
      case WatchEvent::Kind::host_back: take_silence(event.host, false, {}); break;
      case WatchEvent::Kind::ended: have_procs_ended_ = true; break;
      default: break;
    }
  }
  settle(actions, now);
  return actions;
}

void ActorMeshController::take_actor(std::uint64_t number, Rank& rank, const std::shared_ptr<const wire::ActorStateT>& actor, Time now) {
  const auto status = state_of(actor->status);
  // Failures of children are their parents' business.
  if (!status || actor->pid != 0 || actor->name != name_.actor().to_string()) return;
  if (rank.state && (is_terminal(rank.state->state()) || actor->generation <= rank.state->generation())) return;
  has_seen_ = true;
  is_slice_ = is_slice_ || actor->create_rank != number;
  rank.is_answered = true;
  rank.actor = actor;
  wire::RankState state;
  state.mutate_rank(number);
  state.mutate_generation(actor->generation);
  state.mutate_incarnation(rank.proc.incarnation());
  state.mutate_pid(rank.proc.pid());
  state.mutate_state(*status);
  std::shared_ptr<wire::ExitReportT> exit_report;
  if (is_terminal(*status)) {
    state.mutate_ended_ns(actor->changed_ns);
    exit_report = std::make_shared<wire::ExitReportT>();
    exit_report->rank = number;
    exit_report->reason = words_of(*actor);
    if (*status == wire::ProcState::stopped) exit_report->cause = wire::Cause::stopped;
  }
  set_state(number, rank, state, std::move(exit_report), now);
  if (is_terminal(*status)) return;
  to_ask_.insert(number);
  // It was overtaken by the end of its proc.
  if (is_terminal(rank.proc.state())) end_with_proc(number, rank, now);
}

void ActorMeshController::take_list(std::uint64_t number, Rank& rank, const ActorNews& news, Time now) {
  for (const auto& actor : news.actors) take_actor(number, rank, actor, now);
  const bool has_it = std::any_of(news.actors.begin(), news.actors.end(), [](const auto& actor) { return actor->pid == 0; });
  if (has_it || is_terminal(rank.proc.state())) return;
  if (!rank.state) {
    if (!std::exchange(rank.is_answered, true)) absent_since_ = now;
    note_standing(number, rank);
  } else if (!is_terminal(rank.state->state())) {
    // Ended ones are forgotten when there are very many.
    auto gone = std::make_shared<wire::ActorStateT>(*rank.actor);
    gone->status = wire::StatusKind::failed;
    ++gone->generation;
    gone->reason = "its proc does not know it any more: it has ended, and nobody can say how";
    take_actor(number, rank, gone, now);
  }
}

ActorMeshController::Actions ActorMeshController::pushed(std::uint64_t proc_key, std::uint64_t host_key, std::uint64_t incarnation,
                                                         const ActorNews& news, Time now) {
  Actions actions;
  const auto found = rank_of_.find(proc_key);
  if (found == rank_of_.end()) return actions;
  auto& rank = ranks_.at(found->second);
  if (rank.host.key() != host_key || rank.proc.incarnation() != incarnation) return actions;
  for (const auto& actor : news.actors) take_actor(found->second, rank, actor, now);
  settle(actions, now);
  return actions;
}

ActorMeshController::Actions ActorMeshController::answered(const Order& order, const HostAnswer& answer, Time now) {
  Actions actions;
  if (order.kind == Order::Kind::stream) asked_.erase({order.rank, order.incarnation});
  if (const auto found = ranks_.find(order.rank); found != ranks_.end() && found->second.proc.incarnation() == order.incarnation) {
    auto& rank = found->second;
    auto& asked = order.kind == Order::Kind::stream ? rank.stream : rank.stop;
    const auto* const news = answer ? std::get_if<ActorNews>(&*answer) : nullptr;
    const bool is_none = !answer && order.kind == Order::Kind::stop && answer.error().code() == ErrorCode::not_exist;
    // Meanwhile it may have to be asked anew.
    if (asked == Asked::waits) asked = news != nullptr || is_none ? Asked::done : Asked::no;
    if (news != nullptr) {
      rank.has_failed = false;
      take_list(order.rank, rank, *news, now);
    } else if (!is_none) {
      later_.emplace(now + MeshController::ask_again, order.rank);
    }
    if (!answer && !is_none && !is_silence(answer.error().code()) && !std::exchange(rank.has_failed, true)) {
      auto event = make_event(WatchEvent::Kind::query_failed, rank.host);
      event.problem = "rank " + std::to_string(order.rank) + ": " + answer.error().to_string();
      reports_.add(std::move(event));
    }
  }
  // Who cannot be asked at all says so before this returns: the next ones wait for their turn.
  if (answer) {
    settle(actions, now);
  } else {
    tell(actions, now);
  }
  return actions;
}

ActorMeshController::Actions ActorMeshController::poll(Time now) {
  Actions actions;
  for (auto& [number, rank] : ranks_) {
    if (rank.stream == Asked::done) rank.stream = Asked::no;
    to_ask_.insert(number);
  }
  settle(actions, now);
  return actions;
}

ActorMeshController::Actions ActorMeshController::stop(wire::StopProcsT order, Time now) {
  Actions actions;
  stop_ = std::move(order);
  for (auto& [number, rank] : ranks_) {
    rank.stop = Asked::no;
    to_ask_.insert(number);
  }
  settle(actions, now);
  return actions;
}

ActorMeshController::Actions ActorMeshController::turn(Time now) {
  Actions actions;
  settle(actions, now);
  return actions;
}

// --- What there is to say and to ask. ---

WatchEvent ActorMeshController::make_event(WatchEvent::Kind kind, const HostAddr& host) const {
  WatchEvent event;
  event.kind = kind;
  event.mesh = text_;
  event.host = host;
  event.region = region_;
  event.generation = generation();
  event.overall = overall();
  return event;
}

WatchEvent ActorMeshController::make_event(const Rank& rank) const {
  auto event = make_event(WatchEvent::Kind::state, rank.host);
  event.rank = *rank.state;
  event.exit_report = rank.exit_report;
  event.actor = rank.actor;
  return event;
}

void ActorMeshController::tell(Actions& actions, Time now) {
  const auto as_of_now = overall();
  for (auto& event : reports_.take(now).events) {
    event.overall = as_of_now;
    actions.events.push_back(std::move(event));
  }
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
    for (const auto number : std::exchange(unasked_, {})) end_with_proc(number, ranks_.at(number), now);
  }
  tell(actions, now);
  if (reports_.complete(is_over(now))) {
    reports_.add(make_event(WatchEvent::Kind::ended, ranks_.begin()->second.host));
    tell(actions, now);
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
  if (has_seen_ && is_monitored() && count(Standing::absent) != 0 && over > settled_) next = next ? std::min(*next, over) : over;
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
      if (rank.exit_report != nullptr) report.reason = cut_text(rank.exit_report->reason, 256);
      status = report.status();
    }
    statuses.set(number, number + 1, status);
  }
  return statuses;
}

std::vector<WatchEvent> ActorMeshController::known(const RankSet& ranks) const {
  std::vector<WatchEvent> events;
  for (const auto& [number, rank] : ranks_) {
    // What was not told yet will be, in its turn.
    if (!rank.state || reports_.holds(number) || (!ranks.empty() && !contains(ranks, number))) continue;
    events.push_back(make_event(rank));
  }
  ReportQueue::sort(events);
  for (const auto& [host, problem] : silent_) {
    const bool is_here = std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& entry) { return entry.second.host == host; });
    if (!is_here || !is_monitored()) continue;
    events.push_back(make_event(WatchEvent::Kind::host_unreachable, host));
    events.back().problem = problem;
  }
  if (!is_monitored()) events.push_back(make_event(WatchEvent::Kind::ended, ranks_.begin()->second.host));
  return events;
}

}  // namespace meshbus
