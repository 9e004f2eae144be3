#include "client/controller/mesh_controller.h"

#include <algorithm>

#include "client/controller/supervision_event.h"
#include "common/wire/control.h"
#include "wire/ranks_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {

MeshController::Entry* MeshController::find(const HostAddr& host) {
  const auto found = parts_.find(host);
  return found == parts_.end() ? nullptr : &*found;
}

void MeshController::take_head(const MeshUpdate& update) {
  if (region() == nullptr && RankLayout::can_be(update.region.num_ranks(), update.hosts.size())) {
    events_.set_region(std::make_shared<const Region>(update.region));
    layout_.set(update.region.num_ranks(), update.hosts);
    if (const auto& layout = update.ranks_update.layout) revision_ = layout->revision;
  }
  if (const auto& layout = update.ranks_update.layout) take_layout(*layout);
  take_hosts(update.hosts);
}

void MeshController::take_hosts(const std::vector<HostAddr>& hosts) {
  for (const auto& host : hosts) {
    if (watched_->contains(host)) {
      parts_.try_emplace(host);
    } else {
      is_partial_ = true;
    }
  }
}

void MeshController::take_layout(const MeshLayout& layout) {
  const auto known = next_layout_ ? next_layout_->revision : revision_;
  const bool can_be =
      !layout.hosts.empty() && RankLayout::can_be(layout.region.num_ranks(), layout.hosts.size());
  if (layout.revision > known && can_be && region() != nullptr) next_layout_ = layout;
}

void MeshController::apply_layout() {
  if (!next_layout_) return;
  const auto before = region()->num_ranks();
  const auto after = next_layout_->region.num_ranks();
  for (const auto& [number, rank] : ranks_.all()) {
    // Its end comes first, and the host of it may say it later than another one says this.
    if (number >= after && (rank.is_live || events_.queue().holds(number))) return;
  }
  const auto layout = *std::exchange(next_layout_, std::nullopt);
  revision_ = layout.revision;
  for (auto number = after; number < before; ++number) {
    troubles_.forget(number);
    ranks_.drop(number);
  }
  events_.set_region(std::make_shared<const Region>(layout.region));
  layout_.set(after, layout.hosts);
  take_hosts(layout.hosts);
  // What an owner before has left is begun anew with the ranks that there are.
  if (before != after) restarts_.reset();
  if (before == after || parts_.empty()) return;
  // What came of new ranks before this was no news of the mesh as it was.
  for (auto& [host, part] : parts_) {
    const auto here = layout_.ranks_on(host);
    if (!here.empty() && here.back() >= before) part.wants_state = true;
  }
  auto event = events_.make(WatchEvent::Kind::resized, parts_.begin()->first);
  event.ranks = {{std::min(before, after), std::max(before, after)}};
  event.went = after < before;
  event.problem = "it has " + std::to_string(after) + " ranks now: " + to_string(event.ranks) +
                  (event.went ? " are gone" : " came");
  events_.queue().add(std::move(event));
}

void MeshController::tell(std::uint64_t number, Time now) {
  const auto& rank = *ranks_.find(number);
  auto event = events_.make(*rank.host, rank.state, rank.exit_report);
  if (rank.is_live) {
    events_.queue().add(std::move(event));
  } else {
    events_.queue().add_end(std::move(event), now);
  }
}

bool MeshController::take(Entry& here, const wire::RankState& state, Time now) {
  using Change = RankBook::Change;
  // There is no such rank, whatever the host says.
  if (region() != nullptr && state.rank() >= region()->num_ranks()) return false;
  const auto change = ranks_.take(here.first, state);
  if (change == Change::none) return false;
  // A rank that turns up behind the stop of the others is stopped as well.
  if (change == Change::first && here.second.stop.is_done()) here.second.stop.reopen();
  if (change == Change::incarnation) events_.queue().release(state.rank());
  if (state.state() != wire::ProcState::ready || change != Change::state)
    troubles_.forget(state.rank());
  here.second.restarts.on_state(state.rank(), !is_terminal(state.state()), state.restarts());
  if (restarts_ && !is_terminal(state.state()))
    carry_out(restarts_->on_live(state.rank(), state.restarts()));
  tell(state.rank(), now);
  return true;
}

void MeshController::take_owner(const HostAddr& host, const OwnerUpdate& owner) {
  const bool is_new = !owners_.names_any_of({owner.owner});
  owners_.take(host, owner);
  if (!is_new) return;
  // What those said that have nothing of the mesh may be older than that.
  for (auto& [other, part] : parts_) part.word.on_new_owner(part.is_listed || part.is_silent);
}

bool MeshController::have_all_spoken() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const Entry& here) {
    return here.second.word.is_heard() || here.second.is_silent;
  });
}

MeshController::Actions MeshController::ask_unheard(Time now) {
  for (auto& [host, part] : parts_) {
    if (!part.word.is_heard() && !part.is_silent) part.wants_state = true;
  }
  return settle(now);
}

void MeshController::take_all(Entry& here, const RankUpdate& update, Time now) {
  if (update.owner) take_owner(here.first, *update.owner);
  if (update.layout) take_layout(*update.layout);
  for (const auto& state : update.ranks) take(here, state, now);
  // From the back: see ReportQueue::report_exit().
  for (auto entry = update.exit_reports.rbegin(); entry != update.exit_reports.rend(); ++entry) {
    const auto* const rank = ranks_.find((*entry)->rank);
    if (rank == nullptr || rank->host != &here.first) continue;
    events_.queue().report_exit((*entry)->rank, *entry);
    ranks_.add_exit_report(here.first, *entry);
  }
  for (const auto& trouble : update.troubles) take_trouble(here.first, trouble, update);
}

void MeshController::take_trouble(const HostAddr& host, const wire::RankTrouble& trouble,
                                  const RankUpdate& update) {
  const auto* const rank = ranks_.find(trouble.rank());
  if (rank == nullptr || rank->host != &host || trouble.trouble() > wire::Trouble::MAX) return;
  const bool is_ready = rank->state.state() == wire::ProcState::ready;
  if (!is_ready || rank->state.incarnation() != trouble.incarnation()) return;
  const auto stuck = std::find_if(update.stuck.begin(), update.stuck.end(),
                                  [&](const auto& one) { return one->rank == trouble.rank(); });
  troubles_.take(trouble, stuck == update.stuck.end() ? nullptr : *stuck);
}

void MeshController::take_standing(const HostAddr& host, const RankUpdate& update) {
  std::set<std::uint64_t> standing;
  for (const auto& trouble : update.troubles) {
    take_trouble(host, trouble, update);
    standing.insert(trouble.rank());
  }
  troubles_.clear_all_but(standing, [&](std::uint64_t number) {
    const auto* const rank = ranks_.find(number);
    return rank != nullptr && rank->host == &host;
  });
}

bool MeshController::lose_unheard(Time now) {
  bool is_any = false;
  for (auto& [host, part] : parts_) {
    if (part.is_whole || !part.word.is_denial()) continue;
    for (const auto number : layout_.ranks_on(host)) {
      if (ranks_.find(number) != nullptr) continue;
      wire::RankState state;
      state.mutate_rank(number);
      state.mutate_state(wire::ProcState::ready);
      ranks_.take(host, state);
      is_any = true;
    }
    lose_all_but(host, {}, now);
  }
  return is_any;
}

void MeshController::lose_all_but(const HostAddr& host, const std::set<std::uint64_t>& those,
                                  Time now) {
  for (const auto number : ranks_.others_on(host, those, /*is_live=*/true)) {
    auto exit_report = std::make_shared<wire::ExitReportT>();
    exit_report->rank = number;
    if (is_leaving(number)) {
      exit_report->reason = "stopped: it was taken out of the mesh";
      exit_report->cause = wire::Cause::stopped;
      ranks_.lose(number, std::move(exit_report), wire::ProcState::stopped);
      troubles_.forget(number);
      tell(number, now);
      continue;
    }
    exit_report->reason = "host lost: " + host.to_string() +
                          ": its agent does not know this rank: the host was started again";
    exit_report->code = wire::ErrorCode::host_unreachable;
    exit_report->cause = wire::Cause::host_lost;
    exit_report->consequence = true;
    ranks_.lose(number, std::move(exit_report));
    troubles_.forget(number);
    tell(number, now);
  }
}

void MeshController::forget_all_but(const HostAddr& host, const std::set<std::uint64_t>& those) {
  for (const auto number : ranks_.others_on(host, those, /*is_live=*/false)) {
    if (!events_.queue().holds(number)) ranks_.forget(number);
  }
}

void MeshController::take_whole(Entry& here, const RankUpdate& update, Time now) {
  auto& [host, part] = here;
  part.is_listed = true;
  part.is_whole = true;
  part.word.on_listed();
  part.absent_since.reset();
  take_all(here, update, now);
  take_standing(host, update);
  std::set<std::uint64_t> those;
  for (const auto& state : update.ranks) those.insert(state.rank());
  lose_all_but(host, those, now);
  forget_all_but(host, those);
}

MeshController::Actions MeshController::listed(const HostAddr& host, const MeshUpdate& update,
                                               Time now) {
  take_head(update);
  auto* const here = find(host);
  if (here == nullptr) return {};
  auto& part = here->second;
  part.has_failed = false;
  part.is_listed = true;
  part.word.on_listed();
  part.absent_since.reset();
  const auto& ranks = update.ranks_update;
  if (ranks.owner) take_owner(here->first, *ranks.owner);
  std::set<std::uint64_t> those;
  bool is_new = false;
  for (const auto& state : ranks.ranks) {
    those.insert(state.rank());
    is_new = take(*here, state, now) || is_new;
  }
  // The agent should have pushed this: so it does not push to us any more.
  if (is_new && part.stream.is_done()) part.stream.reopen();
  if (those.empty()) {
    part.wants_state = true;
  } else {
    part.is_whole = true;
    take_standing(here->first, ranks);
    forget_all_but(here->first, those);
    if (!ranks_.others_on(here->first, those, /*is_live=*/true).empty()) part.wants_state = true;
  }
  return settle(now);
}

MeshController::Actions MeshController::absent(const HostAddr& host, Time now) {
  auto* const here = find(host);
  if (here == nullptr) return {};
  auto& part = here->second;
  part.has_failed = false;
  part.is_listed = false;
  if (!part.absent_since) part.absent_since = now;
  if (now - *part.absent_since >= kMemory) forget_all_but(here->first, {});
  // It is asked once more before any rank is said to be dead.
  if (ranks_.live_on(here->first) != 0) part.wants_state = true;
  return settle(now);
}

MeshController::Actions MeshController::pushed(const HostAddr& host, const RankUpdate& update,
                                               Time now) {
  auto* const here = find(host);
  if (here == nullptr) return {};
  // The host pushes unasked because the mesh is ours there; but a change says nothing about its
  // lease, which nobody else renews.
  if (!here->second.is_listed) here->second.wants_state = true;
  take_all(*here, update, now);
  return settle(now);
}

void MeshController::on_error(Entry& here, const Error& error, Time now) {
  here.second.ask_after = now + kAskAgain;
  // Silence is judged for the host as a whole.
  if (is_silence(error.code()) || std::exchange(here.second.has_failed, true)) return;
  events_.add_failed_query(here.first, error.to_string());
}

MeshController::Actions MeshController::answered(const Order& order, const HostAnswer& answer,
                                                 Time now) {
  auto* const here = find(order.host);
  if (here == nullptr) return {};
  auto& part = here->second;
  switch (order.kind) {
    case Order::Kind::stream: part.stream.on_answer(answer.has_value()); break;
    case Order::Kind::stop: part.stop.on_answer(answer.has_value()); break;
    case Order::Kind::state: part.is_state_asked = false; break;
    case Order::Kind::stop_gang:
      part.restarts.on_stop_answer(answer.has_value(), now);
      return settle(now);
    case Order::Kind::restart: {
      const auto done = answer ? Result<void>() : Result<void>(tl::unexpected(answer.error()));
      for (const auto rank : part.restarts.on_start_answer(done, now)) {
        if (restarts_) carry_out(restarts_->on_refused(rank, answer.error().to_string(), now));
      }
      return settle(now);
    }
  }
  const auto* const state = answer ? std::get_if<MeshUpdate>(&*answer) : nullptr;
  const bool is_unknown =
      !answer && answer.error().code() == ErrorCode::not_exist && order.kind != Order::Kind::stop;
  // A host that fails to say it is not waited for: leases run on the others.
  if (order.kind == Order::Kind::state) part.word.on_answer(is_unknown);
  if (state != nullptr || is_unknown) {
    part.has_failed = false;
    part.wants_state = false;
  }
  if (state != nullptr) {
    take_whole(*here, state->ranks_update, now);
  } else if (is_unknown) {
    part.is_listed = false;
    part.stream.reopen();
    if (!part.absent_since) part.absent_since = now;
    lose_all_but(here->first, {}, now);
  } else if (!answer) {
    on_error(*here, answer.error(), now);
  }
  return settle(now);
}

MeshController::Actions MeshController::host_changed(const HostAddr& host, bool is_silent,
                                                     const std::string& problem, Time now) {
  auto* const here = find(host);
  if (here == nullptr || here->second.is_silent == is_silent) return {};
  auto& part = here->second;
  part.is_silent = is_silent;
  if (is_silent) part.word.on_silent();
  part.problem = is_silent ? problem : std::string();
  part.stream.reopen();
  events_.add_host(host, is_silent, part.problem);
  return settle(now);
}

MeshController::Actions MeshController::streams_lost(const std::optional<HostAddr>& host,
                                                     Time now) {
  for (auto& [address, part] : parts_) {
    if (host && !(address == *host)) continue;
    part.stream.reopen();
    part.restarts.on_connected();
  }
  return settle(now);
}

MeshController::Actions MeshController::stop(wire::StopProcsT order, Time now) {
  if (restarts_) {
    RankSet ranks;
    for (const auto& block : order.ranks) ranks.push_back({block.begin(), block.end()});
    carry_out(restarts_->stop(ranks));
  }
  stop_ = std::move(order);
  for (auto& [host, part] : parts_) {
    part.stop.reopen();
    part.ask_after = {};
  }
  return settle(now);
}

MeshController::Actions MeshController::turn(Time now) {
  return settle(now);
}

// --- What there is to say and to ask. ---

MeshController::Actions MeshController::own(bool is_ours, Time now) {
  is_ours_ = is_ours;
  if (is_ours) return settle(now);
  restarts_.reset();
  for (auto& [host, part] : parts_) {
    part.restarts = {};
    part.stopped = {};
    part.word.forget_denial();
  }
  return {};
}

RestartPlan MeshController::restart_plan(const HostAddr& host, Time now) const {
  const auto plan = restarts_ ? restarts_->plan(now) : owners_.restarts().value_or(RestartPlan());
  return part_of(plan, [&](std::uint64_t number) {
    const auto* const rank = ranks_.find(number);
    return rank != nullptr && *rank->host == host;
  });
}

bool MeshController::knows_all_hosts() {
  bool is_known = true;
  for (auto& [host, part] : parts_) {
    if (part.is_whole || part.word.is_denial()) continue;
    is_known = false;
    // The list that does not have it may be older than the mesh.
    if (part.absent_since) part.wants_state = true;
  }
  return is_known;
}

bool MeshController::adopt(Time now) {
  const auto plan = owners_.restarts();
  if (!plan || plan->is_over || region() == nullptr || is_partial_ || ranks_.seen() == 0)
    return false;
  if (!knows_all_hosts()) return false;
  if (lose_unheard(now)) return true;
  std::vector<WatchEvent> ends;
  std::map<std::uint64_t, std::uint64_t> live;
  for (const auto& [number, rank] : ranks_.all()) {
    // Its exit report says whether it is a consequence.
    if (events_.queue().holds(number)) return false;
    if (rank.is_live) {
      live.emplace(number, rank.state.restarts());
    } else {
      ends.push_back(events_.make(*rank.host, rank.state, rank.exit_report));
    }
  }
  std::stable_sort(ends.begin(), ends.end(), is_earlier_end);
  std::vector<RankReport> reports;
  for (const auto& end : ends) reports.push_back(to_rank_report(end));
  restarts_.emplace(*plan, region()->num_ranks(), std::hash<std::string>()(mesh()));
  take_stops();
  carry_out(restarts_->begin(std::move(reports), std::move(live), now));
  return false;
}

void MeshController::take_stops() {
  for (auto& [host, part] : parts_) {
    const auto stopped = owners_.stopped_on(host);
    if (stopped == part.stopped) continue;
    part.stopped = stopped;
    std::vector<std::uint64_t> ranks;
    for (const auto number : layout_.ranks_on(host)) {
      if (contains(stopped, number)) ranks.push_back(number);
    }
    if (!ranks.empty()) carry_out(restarts_->stop(to_rank_set(ranks)));
  }
}

bool MeshController::judge(const std::vector<WatchEvent>& events, std::size_t first, Time now) {
  if (!is_ours_) return false;
  if (!restarts_) {
    if (adopt(now)) return true;
  } else {
    for (auto at = first; at < events.size(); ++at) {
      const auto& event = events[at];
      if (event.kind == WatchEvent::Kind::state && is_terminal(event.rank.state()))
        carry_out(restarts_->on_end(to_rank_report(event), now));
    }
    carry_out(restarts_->turn(now));
  }
  if (!restarts_) return false;
  // Somebody has stopped the mesh at its hosts, or some of its ranks.
  if (const auto plan = owners_.restarts(); plan && plan->is_over) carry_out(restarts_->stop({}));
  take_stops();
  if (!restarts_->is_over()) return false;
  for (auto& [host, part] : parts_) {
    if (owners_.may_restart_on(host)) {
      part.restarts.end();
    } else {
      part.restarts.on_ended();
    }
  }
  return false;
}

void MeshController::carry_out(MeshRestarts::Outcome outcome) {
  for (auto& notice : outcome.notices) {
    const auto* const cause = ranks_.find(notice.cause);
    if (cause == nullptr) continue;
    auto event =
        events_.make(notice.is_given_up ? WatchEvent::Kind::given_up : WatchEvent::Kind::restarting,
                     *cause->host);
    event.ranks = std::move(notice.ranks);
    event.problem = std::move(notice.words);
    events_.queue().add(std::move(event));
  }
  for (const auto& stop : outcome.stops) {
    for (const auto number : stop.ranks) {
      const auto* const rank = ranks_.find(number);
      if (rank != nullptr && rank->is_live)
        parts_.at(*rank->host).restarts.stop(number, stop.cause, stop.why);
    }
  }
  for (const auto number : outcome.cancelled) {
    if (const auto* const rank = ranks_.find(number); rank != nullptr)
      parts_.at(*rank->host).restarts.cancel(number);
  }
  for (const auto& [number, restarts] : outcome.starts) {
    if (const auto* const rank = ranks_.find(number); rank != nullptr)
      parts_.at(*rank->host).restarts.start(number, restarts);
  }
}

void MeshController::add_restart_orders(Entry& here, Actions& actions, Time now) {
  auto& [host, part] = here;
  if (auto order = part.restarts.take_stop(now))
    actions.orders.push_back({.kind = Order::Kind::stop_gang,
                              .host = host,
                              .stop = std::make_shared<wire::StopProcsT>(std::move(*order))});
  if (auto order = part.restarts.take_start(now))
    actions.orders.push_back({.kind = Order::Kind::restart,
                              .host = host,
                              .restart = std::make_shared<wire::RestartProcsT>(std::move(*order))});
}

bool MeshController::has_failed() const {
  if (failed() == 0 || !restarts_) return failed() != 0;
  return std::any_of(ranks_.all().begin(), ranks_.all().end(), [this](const auto& entry) {
    return is_failure(entry.second.state) && !restarts_->is_waiting(entry.first);
  });
}

void MeshController::take_events(Actions& actions, Time now) {
  for (const auto& trouble : troubles_.take_untold()) {
    const auto& rank = *ranks_.find(trouble.rank());
    auto event = events_.make(*rank.host, rank.state, rank.exit_report);
    event.kind = WatchEvent::Kind::trouble;
    event.trouble = trouble;
    event.stuck = troubles_.stuck(trouble.rank());
    events_.queue().add(std::move(event));
  }
  for (const auto& host : events_.take(actions.events, overall(), now))
    parts_.at(host).wants_state = true;
}

bool MeshController::is_over(Time now) const {
  if (ranks_.seen() == 0 || ranks_.live() != 0 || !events_.queue().empty()) return false;
  // Without an owner no rank is restarted.
  const bool is_abandoned = owners_.is_abandoned();
  return std::all_of(parts_.begin(), parts_.end(), [&](const Entry& here) {
    const auto& [host, part] = here;
    if (part.is_listed) return part.is_whole && (is_abandoned || !owners_.may_restart_on(host));
    if (!part.absent_since) return false;
    return ranks_.seen() >= size() || now - *part.absent_since >= kAbsenceLimit;
  });
}

bool MeshController::wants(const Entry& here, Order::Kind kind) const {
  const auto& [host, part] = here;
  const bool is_live = ranks_.live_on(host) != 0;
  switch (kind) {
    case Order::Kind::stop:
      // A rank that waits for its next incarnation is stopped, too.
      return stop_.has_value() && part.stop.is_open() &&
             (is_live || (is_ours_ && owners_.may_restart_on(host)));
    case Order::Kind::stream:
      // Where ranks are to be restarted the host has to know us, whatever our address is.
      return part.stream.is_open() && part.is_listed &&
             (is_live || !part.is_whole || !part.restarts.is_idle() ||
              events_.queue().holds_any_of(host));
    case Order::Kind::state:
      return part.wants_state && !part.is_state_asked && !part.stream.is_asked();
    case Order::Kind::stop_gang:
    case Order::Kind::restart: break;  // see HostRestarts
  }
  return false;
}

MeshController::Actions MeshController::settle(Time now) {
  Actions actions;
  settled_ = now;
  apply_layout();
  take_events(actions, now);
  apply_layout();
  if (judge(actions.events, 0, now)) {
    take_events(actions, now);
    judge(actions.events, actions.events.size(), now);
  }
  take_events(actions, now);
  if (restarts_) {
    // All of this goes out at once: an end that a restart follows is no failure of the mesh.
    const auto state = overall();
    for (auto& event : actions.events) event.overall = state;
  }
  if (!parts_.empty() && events_.add_end(is_over(now), parts_.begin()->first))
    take_events(actions, now);
  for (auto& here : parts_) {
    auto& [host, part] = here;
    if (part.is_silent) continue;
    add_restart_orders(here, actions, now);
    if (now < part.ask_after) continue;
    if (wants(here, Order::Kind::stop)) {
      part.stop.ask();
      actions.orders.push_back({Order::Kind::stop, host});
    }
    if (wants(here, Order::Kind::stream)) {
      part.stream.ask();
      actions.orders.push_back({Order::Kind::stream, host});
    }
    if (wants(here, Order::Kind::state)) {
      part.is_state_asked = true;
      part.word.on_question();
      actions.orders.push_back({Order::Kind::state, host});
    }
  }
  return actions;
}

std::optional<MeshController::Time> MeshController::next_due() const {
  auto next = events_.queue().next_due();
  const auto consider = [&next](Time time) { next = next ? std::min(*next, time) : time; };
  if (const auto due = restarts_ ? restarts_->next_due() : std::nullopt) consider(*due);
  using Kind = Order::Kind;
  for (const auto& here : parts_) {
    const auto& part = here.second;
    const bool wants_any =
        wants(here, Kind::stop) || wants(here, Kind::stream) || wants(here, Kind::state);
    if (!part.is_silent && wants_any) consider(part.ask_after);
    if (const auto due = part.restarts.next_due(); due && !part.is_silent) consider(*due);
    if (part.absent_since && *part.absent_since + kAbsenceLimit > settled_)
      consider(*part.absent_since + kAbsenceLimit);
  }
  return next;
}

bool MeshController::is_forgotten() const noexcept {
  return ranks_.all().empty() && std::none_of(parts_.begin(), parts_.end(), [](const auto& entry) {
           return entry.second.is_listed;
         });
}

std::uint64_t MeshController::live_on(const HostAddr& host) const {
  const auto found = parts_.find(host);
  return found == parts_.end() ? 0 : ranks_.live_on(found->first);
}

Status::Kind MeshController::overall() const {
  if (has_failed()) return Status::Kind::failed;
  const bool is_heard = std::any_of(parts_.begin(), parts_.end(), [this](const auto& entry) {
    return ranks_.live_on(entry.first) != 0 && !entry.second.is_silent;
  });
  if (is_heard) return Status::Kind::running;
  const bool is_known = std::all_of(parts_.begin(), parts_.end(), [](const auto& entry) {
    return entry.second.is_listed ? entry.second.is_whole : entry.second.absent_since.has_value();
  });
  if (ranks_.seen() == 0 || live() != 0 || is_partial_ || !is_known) return Status::Kind::unknown;
  return Status::Kind::stopped;
}

StatusOverlay MeshController::statuses() const {
  StatusOverlay statuses;
  for (const auto& [number, rank] : ranks_.all()) {
    const bool is_unheard = rank.is_live && parts_.at(*rank.host).is_silent;
    statuses.set(number, number + 1,
                 is_unheard ? Status() : status_of(rank.state, rank.exit_report.get()));
  }
  return statuses;
}

std::vector<WatchEvent> MeshController::known(const RankSet& ranks) const {
  std::vector<WatchEvent> events;
  for (const auto& [number, rank] : ranks_.all()) {
    // Events that are not out yet follow in their turn.
    const bool is_meant = ranks.empty() || contains(ranks, number);
    if (!is_meant || events_.queue().holds(number)) continue;
    events.push_back(events_.make(*rank.host, rank.state, rank.exit_report));
    // The end of a trouble is reported, too: a subscriber may have missed it.
    const auto* const trouble = troubles_.find(number);
    if (trouble == nullptr) continue;
    events.push_back(events.back());
    events.back().kind = WatchEvent::Kind::trouble;
    events.back().trouble = *trouble;
    events.back().stuck = troubles_.stuck(number);
  }
  for (const auto& notice :
       restarts_ ? restarts_->given_up() : std::vector<MeshRestarts::Notice>()) {
    const auto* const cause = ranks_.find(notice.cause);
    if (cause == nullptr) continue;
    events.push_back(events_.make(WatchEvent::Kind::given_up, *cause->host));
    events.back().ranks = notice.ranks;
    events.back().problem = notice.words;
  }
  std::map<HostAddr, std::string> silent;
  for (const auto& [host, part] : parts_) {
    if (part.is_silent) silent.emplace(host, part.problem);
  }
  const auto ended_on = parts_.empty() ? HostAddr::local(0) : parts_.begin()->first;
  return events_.standing(std::move(events), silent, ended_on, overall());
}

}  // namespace meshbus
