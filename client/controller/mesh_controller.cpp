#include "client/controller/mesh_controller.h"

#include <algorithm>

#include "client/src/wire_reports.h"
#include "common/wire/control.h"
#include "wire/ranks_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {

MeshController::Part* MeshController::find(const HostAddr& host) {
  const auto found = parts_.find(host);
  return found == parts_.end() ? nullptr : &found->second;
}

void MeshController::take_head(const MeshNews& news) {
  if (region_ == nullptr) region_ = std::make_shared<const Region>(news.region);
  for (const auto& host : news.hosts) {
    if (!watched_->contains(host)) {
      is_partial_ = true;
      continue;
    }
    const auto [found, is_new] = parts_.try_emplace(host);
    if (is_new) host_of_.emplace(&found->second, &found->first);
  }
}

void MeshController::set_state(Rank& rank, const wire::RankState& state, Time now) {
  const auto number = state.rank();
  const bool is_live = !is_terminal(state.state());
  if (const bool was_live = std::exchange(rank.is_live, is_live); was_live && !is_live) {
    --live_;
    --rank.part->live;
  } else if (is_live && !was_live) {
    ++live_;
    ++rank.part->live;
  }
  // It says itself what is wrong with it, or begins anew.
  if (state.state() != wire::ProcState::ready || state.incarnation() != rank.state.incarnation()) troubles_.erase(number);
  rank.state = state;
  if (is_live) {
    reports_.add(make_event(rank));
    return;
  }
  if (is_failure(state)) ++failed_;
  reports_.add_end(make_event(rank), now);
}

bool MeshController::take(Part& part, const wire::RankState& state, Time now) {
  auto [found, is_new] = ranks_.try_emplace(state.rank());
  auto& rank = found->second;
  // Where a rank lies does not change: another host that claims it is wrong.
  if (!is_new && rank.part != &part) return false;
  const auto past = past_lives_.find(state.rank());
  if (past != past_lives_.end() && past->second.contains(state.incarnation())) {
    if (is_new) ranks_.erase(found);
    return false;
  }
  if (is_new) {
    rank.part = &part;
    if (past == past_lives_.end()) ++seen_;
    // It came behind the stop of the others.
    if (part.stop == Asked::done) part.stop = Asked::no;
  } else if (state.incarnation() != rank.state.incarnation()) {
    past_lives_[state.rank()].insert(rank.state.incarnation());
    if (is_failure(rank.state)) --failed_;
    reports_.release(state.rank());
    rank.exit_report.reset();
  } else if (state.generation() <= rank.state.generation() || !rank.is_live) {
    return false;
  }
  set_state(rank, state, now);
  return true;
}

void MeshController::take_exit_reports(Part& part, const RankNews& news) {
  for (auto entry = news.exit_reports.rbegin(); entry != news.exit_reports.rend(); ++entry) {
    const auto& exit_report = *entry;
    const auto found = ranks_.find(exit_report->rank);
    if (found == ranks_.end() || found->second.part != &part) continue;
    reports_.report_exit(exit_report->rank, exit_report);
    auto& rank = found->second;
    if (!rank.is_live && rank.exit_report == nullptr) rank.exit_report = exit_report;
  }
}

void MeshController::take_all(Part& part, const RankNews& news, Time now) {
  if (news.owner) part.owner = news.owner;
  for (const auto& state : news.ranks) take(part, state, now);
  take_exit_reports(part, news);
  for (const auto& trouble : news.troubles) take_trouble(part, trouble);
}

void MeshController::take_trouble(const Part& part, const wire::RankTrouble& trouble) {
  const auto found = ranks_.find(trouble.rank());
  if (found == ranks_.end() || found->second.part != &part || trouble.trouble() > wire::Trouble::MAX) return;
  const auto& state = found->second.state;
  if (state.state() == wire::ProcState::ready && state.incarnation() == trouble.incarnation()) troubles_[trouble.rank()].known = trouble;
}

void MeshController::take_standing(const Part& part, const std::vector<wire::RankTrouble>& troubles) {
  std::set<std::uint64_t> standing;
  for (const auto& trouble : troubles) {
    take_trouble(part, trouble);
    standing.insert(trouble.rank());
  }
  for (auto& [number, troubled] : troubles_) {
    if (ranks_.at(number).part != &part || troubled.known.trouble() == wire::Trouble::none || standing.contains(number)) continue;
    troubled.known = {number, troubled.known.incarnation(), 0, 0, wire::Trouble::none, 0};
  }
}

void MeshController::lose_all_but(const HostAddr& host, Part& part, const std::set<std::uint64_t>& those, Time now) {
  if (part.live == 0) return;
  for (auto& [number, rank] : ranks_) {
    if (rank.part != &part || !rank.is_live || those.contains(number)) continue;
    auto exit_report = std::make_shared<wire::ExitReportT>();
    exit_report->rank = number;
    exit_report->reason = "host lost: " + host.to_string() + ": its agent does not know this rank any more: the host was started anew";
    exit_report->code = wire::ErrorCode::host_unreachable;
    exit_report->cause = wire::Cause::host_lost;
    exit_report->consequence = true;
    auto state = rank.state;
    state.mutate_generation(state.generation() + 1);
    state.mutate_state(wire::ProcState::failed);
    rank.exit_report = std::move(exit_report);
    set_state(rank, state, now);
  }
}

void MeshController::forget_all_but(Part& part, const std::set<std::uint64_t>& those) {
  std::erase_if(ranks_, [&](const auto& entry) {
    const auto& [number, rank] = entry;
    if (rank.part != &part || those.contains(number) || rank.is_live || reports_.holds(number)) return false;
    past_lives_[number].insert(rank.state.incarnation());
    return true;
  });
}

void MeshController::take_whole(const HostAddr& host, Part& part, const MeshNews& news, Time now) {
  part.is_listed = true;
  part.is_whole = true;
  part.absent_since.reset();
  take_all(part, news.news, now);
  take_standing(part, news.news.troubles);
  std::set<std::uint64_t> those;
  for (const auto& state : news.news.ranks) those.insert(state.rank());
  lose_all_but(host, part, those, now);
  forget_all_but(part, those);
}

MeshController::Actions MeshController::listed(const HostAddr& host, const MeshNews& news, Time now) {
  Actions actions;
  take_head(news);
  auto* const here = find(host);
  if (here == nullptr) return actions;
  here->has_failed = false;
  here->is_listed = true;
  here->absent_since.reset();
  if (news.news.owner) here->owner = news.news.owner;
  bool is_news = false;
  std::set<std::uint64_t> those;
  for (const auto& state : news.news.ranks) {
    those.insert(state.rank());
    is_news = take(*here, state, now) || is_news;
  }
  // The agent should have told: so it does not tell us any more.
  if (is_news && here->stream == Asked::done) here->stream = Asked::no;
  if (those.empty()) {
    here->wants_state = true;
  } else {
    here->is_whole = true;
    take_standing(*here, news.news.troubles);
    forget_all_but(*here, those);
    here->wants_state = here->wants_state || (here->live != 0 && std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& entry) {
                                                return entry.second.part == here && entry.second.is_live && !those.contains(entry.first);
                                              }));
  }
  settle(actions, now);
  return actions;
}

MeshController::Actions MeshController::absent(const HostAddr& host, Time now) {
  Actions actions;
  auto* const here = find(host);
  if (here == nullptr) return actions;
  here->has_failed = false;
  here->is_listed = false;
  if (!here->absent_since) here->absent_since = now;
  if (now - *here->absent_since >= memory) forget_all_but(*here, {});
  // It is asked once more before anybody is said to be dead.
  if (here->live != 0) here->wants_state = true;
  settle(actions, now);
  return actions;
}

MeshController::Actions MeshController::pushed(const HostAddr& host, const RankNews& news, Time now) {
  Actions actions;
  auto* const here = find(host);
  if (here == nullptr) return actions;
  // The host tells us unasked, because the mesh is ours there; but a change says nothing of its lease, and nobody else renews that.
  if (!here->is_listed) here->wants_state = true;
  take_all(*here, news, now);
  settle(actions, now);
  return actions;
}

void MeshController::on_error(const HostAddr& host, Part& part, const Error& error, Time now) {
  part.ask_after = now + ask_again;
  // Whether anybody is there is asked by others.
  if (is_silence(error.code())) return;
  if (std::exchange(part.has_failed, true)) return;
  auto event = make_event(WatchEvent::Kind::query_failed, host);
  event.problem = error.to_string();
  reports_.add(std::move(event));
}

MeshController::Actions MeshController::answered(const Order& order, const HostAnswer& answer, Time now) {
  Actions actions;
  auto* const here = find(order.host);
  if (here == nullptr) return actions;
  const auto next = answer ? Asked::done : Asked::no;
  switch (order.kind) {
    // Meanwhile it may have to be asked anew.
    case Order::Kind::stream: here->stream = here->stream == Asked::waits ? next : here->stream; break;
    case Order::Kind::stop: here->stop = here->stop == Asked::waits ? next : here->stop; break;
    case Order::Kind::state: here->is_state_asked = false; break;
  }
  const auto* const state = answer ? std::get_if<MeshNews>(&*answer) : nullptr;
  const bool is_unknown = !answer && answer.error().code() == ErrorCode::not_exist && order.kind != Order::Kind::stop;
  if (state != nullptr || is_unknown) {
    here->has_failed = false;
    here->wants_state = false;
  }
  if (state != nullptr) {
    take_whole(order.host, *here, *state, now);
  } else if (is_unknown) {
    here->is_listed = false;
    here->stream = Asked::no;
    if (!here->absent_since) here->absent_since = now;
    lose_all_but(order.host, *here, {}, now);
  } else if (!answer) {
    on_error(order.host, *here, answer.error(), now);
  }
  settle(actions, now);
  return actions;
}

MeshController::Actions MeshController::host_changed(const HostAddr& host, bool is_silent, const std::string& problem, Time now) {
  Actions actions;
  auto* const here = find(host);
  if (here == nullptr || here->is_silent == is_silent) return actions;
  here->is_silent = is_silent;
  here->problem = is_silent ? problem : std::string();
  here->stream = Asked::no;
  if (is_monitored()) {
    auto event = make_event(is_silent ? WatchEvent::Kind::host_unreachable : WatchEvent::Kind::host_back, host);
    event.problem = here->problem;
    reports_.add(std::move(event));
  }
  settle(actions, now);
  return actions;
}

MeshController::Actions MeshController::streams_lost(const std::optional<HostAddr>& host, Time now) {
  Actions actions;
  for (auto& [address, here] : parts_) {
    if (host && address != *host) continue;
    here.stream = Asked::no;
  }
  settle(actions, now);
  return actions;
}

MeshController::Actions MeshController::stop(wire::StopProcsT order, Time now) {
  Actions actions;
  stop_ = std::move(order);
  for (auto& [host, here] : parts_) {
    here.stop = Asked::no;
    here.ask_after = {};
  }
  settle(actions, now);
  return actions;
}

MeshController::Actions MeshController::turn(Time now) {
  Actions actions;
  settle(actions, now);
  return actions;
}

// --- What there is to say and to ask. ---

WatchEvent MeshController::make_event(WatchEvent::Kind kind, const HostAddr& host) const {
  WatchEvent event;
  event.kind = kind;
  event.mesh = mesh_;
  event.host = host;
  event.region = region_;
  event.generation = generation();
  event.overall = overall();
  return event;
}

WatchEvent MeshController::make_event(const Rank& rank) const {
  auto event = make_event(WatchEvent::Kind::state, *host_of_.at(rank.part));
  event.rank = rank.state;
  event.exit_report = rank.exit_report;
  return event;
}

WatchEvent MeshController::make_event(const Rank& rank, const wire::RankTrouble& trouble) const {
  auto event = make_event(rank);
  event.kind = WatchEvent::Kind::trouble;
  event.trouble = trouble;
  return event;
}

void MeshController::tell(Actions& actions, Time now) {
  for (auto& [number, troubled] : troubles_) {
    if (troubled.told == troubled.known.trouble()) continue;
    troubled.told = troubled.known.trouble();
    reports_.add(make_event(ranks_.at(number), troubled.known));
  }
  auto reports = reports_.take(now);
  for (const auto& host : reports.ask) parts_.at(host).wants_state = true;
  const auto as_of_now = overall();
  for (auto& event : reports.events) {
    event.overall = as_of_now;
    actions.events.push_back(std::move(event));
  }
}

bool MeshController::is_over(Time now) const {
  if (seen_ == 0 || live_ != 0 || !reports_.empty()) return false;
  // Its owner would have started the ranks again.
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
  return part.stream == Asked::no && part.is_listed && (part.live != 0 || !part.is_whole || reports_.holds_any_of(*host_of_.at(&part)));
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
  if (reports_.complete(is_over(now))) {
    reports_.add(make_event(WatchEvent::Kind::ended, parts_.begin()->first));
    tell(actions, now);
  }
  for (auto& [host, here] : parts_) ask(host, here, actions, now);
}

std::optional<MeshController::Time> MeshController::next_due() const {
  auto next = reports_.next_due();
  const auto consider = [&next](Time time) { next = next ? std::min(*next, time) : time; };
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
    if (rank.exit_report != nullptr) report.reason = cut_text(rank.exit_report->reason, 256);
    statuses.set(number, number + 1, rank.is_live && rank.part->is_silent ? Status() : report.status());
  }
  return statuses;
}

std::vector<WatchEvent> MeshController::known(const RankSet& ranks) const {
  std::vector<WatchEvent> events;
  for (const auto& [number, rank] : ranks_) {
    // What was not told yet will be, in its turn.
    if (reports_.holds(number) || (!ranks.empty() && !contains(ranks, number))) continue;
    events.push_back(make_event(rank));
    // A mesh that is over is told too: a listener may have missed its end.
    if (const auto found = troubles_.find(number); found != troubles_.end()) events.push_back(make_event(rank, found->second.known));
  }
  ReportQueue::sort(events);
  for (const auto& [host, here] : parts_) {
    if (!here.is_silent || !is_monitored()) continue;
    events.push_back(make_event(WatchEvent::Kind::host_unreachable, host));
    events.back().problem = here.problem;
  }
  if (!is_monitored()) events.push_back(make_event(WatchEvent::Kind::ended, parts_.begin()->first));
  return events;
}

}  // namespace meshbus
