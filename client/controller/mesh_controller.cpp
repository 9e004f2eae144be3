#include "client/controller/mesh_controller.h"

#include <algorithm>

#include "common/wire/control.h"
#include "wire/ranks_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {

MeshController::Entry* MeshController::find(const HostAddr& host) {
  const auto found = parts_.find(host);
  return found == parts_.end() ? nullptr : &*found;
}

void MeshController::take_head(const MeshUpdate& update) {
  if (region() == nullptr) events_.set_region(std::make_shared<const Region>(update.region));
  for (const auto& host : update.hosts) {
    if (watched_->contains(host)) {
      parts_.try_emplace(host);
    } else {
      is_partial_ = true;
    }
  }
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
  const auto change = ranks_.take(here.first, state);
  if (change == Change::none) return false;
  // A rank that turns up behind the stop of the others is stopped as well.
  if (change == Change::first && here.second.stop.is_done()) here.second.stop.reopen();
  if (change == Change::incarnation) events_.queue().release(state.rank());
  if (state.state() != wire::ProcState::ready || change != Change::state)
    troubles_.forget(state.rank());
  tell(state.rank(), now);
  return true;
}

void MeshController::take_all(Entry& here, const RankUpdate& update, Time now) {
  if (update.owner) owners_.take(here.first, *update.owner);
  for (const auto& state : update.ranks) take(here, state, now);
  // From the back: see ReportQueue::report_exit().
  for (auto entry = update.exit_reports.rbegin(); entry != update.exit_reports.rend(); ++entry) {
    const auto* const rank = ranks_.find((*entry)->rank);
    if (rank == nullptr || rank->host != &here.first) continue;
    events_.queue().report_exit((*entry)->rank, *entry);
    ranks_.add_exit_report(here.first, *entry);
  }
  for (const auto& trouble : update.troubles) take_trouble(here.first, trouble);
}

void MeshController::take_trouble(const HostAddr& host, const wire::RankTrouble& trouble) {
  const auto* const rank = ranks_.find(trouble.rank());
  if (rank == nullptr || rank->host != &host || trouble.trouble() > wire::Trouble::MAX) return;
  const bool is_ready = rank->state.state() == wire::ProcState::ready;
  if (is_ready && rank->state.incarnation() == trouble.incarnation()) troubles_.take(trouble);
}

void MeshController::take_standing(const HostAddr& host,
                                   const std::vector<wire::RankTrouble>& troubles) {
  std::set<std::uint64_t> standing;
  for (const auto& trouble : troubles) {
    take_trouble(host, trouble);
    standing.insert(trouble.rank());
  }
  troubles_.clear_all_but(standing, [&](std::uint64_t number) {
    const auto* const rank = ranks_.find(number);
    return rank != nullptr && rank->host == &host;
  });
}

void MeshController::lose_all_but(const HostAddr& host, const std::set<std::uint64_t>& those,
                                  Time now) {
  for (const auto number : ranks_.others_on(host, those, /*is_live=*/true)) {
    auto exit_report = std::make_shared<wire::ExitReportT>();
    exit_report->rank = number;
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
  part.absent_since.reset();
  take_all(here, update, now);
  take_standing(host, update.troubles);
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
  part.absent_since.reset();
  const auto& ranks = update.ranks_update;
  if (ranks.owner) owners_.take(here->first, *ranks.owner);
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
    take_standing(here->first, ranks.troubles);
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
  }
  const auto* const state = answer ? std::get_if<MeshUpdate>(&*answer) : nullptr;
  const bool is_unknown =
      !answer && answer.error().code() == ErrorCode::not_exist && order.kind != Order::Kind::stop;
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
  part.problem = is_silent ? problem : std::string();
  part.stream.reopen();
  events_.add_host(host, is_silent, part.problem);
  return settle(now);
}

MeshController::Actions MeshController::streams_lost(const std::optional<HostAddr>& host,
                                                     Time now) {
  for (auto& [address, part] : parts_) {
    if (!host || address == *host) part.stream.reopen();
  }
  return settle(now);
}

MeshController::Actions MeshController::stop(wire::StopProcsT order, Time now) {
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

void MeshController::take_events(Actions& actions, Time now) {
  for (const auto& trouble : troubles_.take_untold()) {
    const auto& rank = *ranks_.find(trouble.rank());
    auto event = events_.make(*rank.host, rank.state, rank.exit_report);
    event.kind = WatchEvent::Kind::trouble;
    event.trouble = trouble;
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
    case Order::Kind::stop: return stop_.has_value() && part.stop.is_open() && is_live;
    case Order::Kind::stream:
      return part.stream.is_open() && part.is_listed &&
             (is_live || !part.is_whole || events_.queue().holds_any_of(host));
    case Order::Kind::state:
      return part.wants_state && !part.is_state_asked && !part.stream.is_asked();
  }
  return false;
}

MeshController::Actions MeshController::settle(Time now) {
  Actions actions;
  settled_ = now;
  take_events(actions, now);
  if (!parts_.empty() && events_.add_end(is_over(now), parts_.begin()->first))
    take_events(actions, now);
  for (auto& here : parts_) {
    auto& [host, part] = here;
    if (part.is_silent || now < part.ask_after) continue;
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
      actions.orders.push_back({Order::Kind::state, host});
    }
  }
  return actions;
}

std::optional<MeshController::Time> MeshController::next_due() const {
  auto next = events_.queue().next_due();
  const auto consider = [&next](Time time) { next = next ? std::min(*next, time) : time; };
  using Kind = Order::Kind;
  for (const auto& here : parts_) {
    const auto& part = here.second;
    const bool wants_any =
        wants(here, Kind::stop) || wants(here, Kind::stream) || wants(here, Kind::state);
    if (!part.is_silent && wants_any) consider(part.ask_after);
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
  if (failed() != 0) return Status::Kind::failed;
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
  }
  std::map<HostAddr, std::string> silent;
  for (const auto& [host, part] : parts_) {
    if (part.is_silent) silent.emplace(host, part.problem);
  }
  const auto ended_on = parts_.empty() ? HostAddr::local(0) : parts_.begin()->first;
  return events_.standing(std::move(events), silent, ended_on, overall());
}

}  // namespace meshbus
