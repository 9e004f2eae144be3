#include "client/controller/mesh_controller.h"

#include <algorithm>
#include <utility>

#include "common/wire/control.h"
#include "wire/ranks_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {

MeshController::Entry* MeshController::find(const HostAddr& host) {
  const auto found = parts_.find(host);
  return found == parts_.end() ? nullptr : &*found;
}

void MeshController::take_head(const MeshUpdate& update) {
  const auto& layout = update.ranks_update.layout;
  if (region() == nullptr && RankLayout::can_be(update.region.num_ranks(), update.hosts.size())) {
    events().set_region(std::make_shared<const Region>(update.region));
    layouts_.begin(update.region.num_ranks(), update.hosts, layout ? layout->revision : 0);
  }
  if (layout) layouts_.take(*layout);
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

void MeshController::move_ranks(Time now) {
  for (auto& [host, part] : parts_) {
    for (const auto number : layouts_.present().ranks_on(host)) {
      // What its new host said before this was no news of the mesh as it was.
      if (ranks_.move(number, host, now)) part.wants_state = true;
    }
  }
}

void MeshController::apply_layout(Time now) {
  // The end of a rank comes first, and its host may say it later than another one says this.
  const auto layout =
      layouts_.take_next([this](std::uint64_t size) { return ranks_.is_any_untold_from(size); });
  if (!layout) return;
  const auto before = region()->num_ranks();
  const auto after = layout->region.num_ranks();
  ranks_.resize(layout->region);
  take_hosts(layout->hosts);
  // What an owner before has left is begun anew with the ranks that there are.
  if (before != after) revival_.reset_policy();
  move_ranks(now);
  if (before == after || parts_.empty()) return;
  // What came of new ranks before this was no news of the mesh as it was.
  for (auto& [host, part] : parts_) {
    const auto here = layouts_.present().ranks_on(host);
    if (!here.empty() && here.back() >= before) part.wants_state = true;
  }
  events().add_resize(parts_.begin()->first, before, after);
}

bool MeshController::take(Entry& here, const wire::RankState& state, Time now) {
  using Change = RankBook::Change;
  auto& [host, part] = here;
  const auto change = ranks_.take(host, state);
  if (change == Change::none) return false;
  // A rank that turns up behind the stop of the others is stopped as well.
  if (change == Change::first && part.stop.is_done()) part.stop.reopen();
  revival_.on_state(ranks_, host, state);
  ranks_.tell(state.rank(), now);
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
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const Entry& here) { return here.second.has_spoken(); });
}

MeshController::Actions MeshController::ask_unheard(Time now) {
  for (auto& [host, part] : parts_) {
    if (!part.has_spoken()) part.wants_state = true;
  }
  return settle(now);
}

void MeshController::take_all(Entry& here, const RankUpdate& update, Time now) {
  if (update.owner) take_owner(here.first, *update.owner);
  if (update.layout) layouts_.take(*update.layout);
  for (const auto& state : update.ranks) take(here, state, now);
  ranks_.take_exit_reports(here.first, update);
  ranks_.take_troubles(here.first, update);
}

void MeshController::take_whole(Entry& here, const RankUpdate& update, Time now) {
  auto& [host, part] = here;
  part.on_listed();
  part.is_whole = true;
  take_all(here, update, now);
  ranks_.take_standing(host, update);
  std::set<std::uint64_t> those;
  for (const auto& state : update.ranks) those.insert(state.rank());
  ranks_.lose_all_but(host, those, layouts_.first_leaving(), now);
  ranks_.forget_all_but(host, those);
}

MeshController::Actions MeshController::listed(const HostAddr& host, const MeshUpdate& update,
                                               Time now) {
  take_head(update);
  auto* const here = find(host);
  if (here == nullptr) return {};
  auto& part = here->second;
  part.has_failed = false;
  part.on_listed();
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
    ranks_.take_standing(here->first, ranks);
    ranks_.forget_all_but(here->first, those);
    if (!book().others_on(here->first, those, /*is_live=*/true).empty()) part.wants_state = true;
  }
  return settle(now);
}

MeshController::Actions MeshController::absent(const HostAddr& host, Time now) {
  auto* const here = find(host);
  if (here == nullptr) return {};
  auto& part = here->second;
  part.has_failed = false;
  part.on_absent(now);
  if (now - *part.absent_since >= kMemory) ranks_.forget_all_but(here->first, {});
  // It is asked once more before any rank is said to be dead.
  if (book().live_on(here->first) != 0) part.wants_state = true;
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
      // What was ordered when it was ours before says nothing of what is ordered now.
      if (order.ownership != ownership_) return {};
      revival_.on_stop_answer(order.host, answer.has_value(), now);
      return settle(now);
    case Order::Kind::restart: {
      if (order.ownership != ownership_) return {};
      const auto done = answer ? Result<void>() : Result<void>(tl::unexpected(answer.error()));
      revival_.on_start_answer(ranks_, order.host, done, now);
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
    part.on_absent(now);
    part.stream.reopen();
    ranks_.lose_all_but(here->first, {}, layouts_.first_leaving(), now);
  } else if (!answer && part.on_error(answer.error(), now)) {
    events().add_failed_query(here->first, answer.error().to_string());
  }
  return settle(now);
}

MeshController::Actions MeshController::host_changed(const HostAddr& host, bool is_silent,
                                                     const std::string& problem, Time now) {
  auto* const here = find(host);
  if (here == nullptr || !here->second.on_silence(is_silent, problem)) return {};
  events().add_host(host, is_silent, here->second.problem);
  return settle(now);
}

MeshController::Actions MeshController::streams_lost(const std::optional<HostAddr>& host,
                                                     Time now) {
  for (auto& [address, part] : parts_) {
    if (host && !(address == *host)) continue;
    part.stream.reopen();
    revival_.on_connected(address);
  }
  return settle(now);
}

MeshController::Actions MeshController::stop(wire::StopProcsT order, Time now) {
  RankSet ranks;
  for (const auto& block : order.ranks) ranks.push_back({block.begin(), block.end()});
  revival_.stop(ranks_, ranks);
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
  ++ownership_;
  revival_ = {};
  for (auto& [host, part] : parts_) part.word.forget_denial();
  return {};
}

RestartPlan MeshController::restart_plan(const HostAddr& host, Time now) const {
  const auto plan = revival_.is_begun() ? revival_.plan(now) : owners_.restarts();
  return part_of(plan.value_or(RestartPlan()), [&](std::uint64_t number) {
    const auto* const rank = book().find(number);
    return rank != nullptr && *rank->host == host;
  });
}

bool MeshController::knows_all_hosts(bool may_miss_silent) {
  bool is_known = true;
  for (auto& [host, part] : parts_) {
    if (part.are_ranks_known() || (revival_.is_begun() && !part.is_missed)) continue;
    // The list that does not have it may be older than the mesh.
    if (part.absent_since) part.wants_state = true;
    is_known = is_known && may_miss_silent && part.is_silent;
  }
  return is_known;
}

bool MeshController::lose_unheard(Time now) {
  bool is_any = false;
  for (auto& [host, part] : parts_) {
    if (!part.are_ranks_known() || (revival_.is_begun() && !part.is_missed)) continue;
    part.is_missed = false;
    if (part.is_whole) continue;
    is_any = ranks_.add_unheard(host, layouts_.present().ranks_on(host)) || is_any;
    ranks_.lose_all_but(host, {}, layouts_.first_leaving(), now);
  }
  return is_any;
}

bool MeshController::judge(std::span<const WatchEvent> events, Time now) {
  if (!is_ours_) return false;
  const MeshRevival::Mesh mesh{ranks_, owners_, layouts_.present()};
  if (revival_.is_begun()) {
    revival_.on_told(ranks_, events, now);
    knows_all_hosts(true);
    if (lose_unheard(now)) return true;
  } else {
    const auto plan = owners_.restarts();
    const bool is_known = region() != nullptr && !is_partial_ && book().seen() != 0;
    if (!plan || plan->is_over || !is_known) return false;
    // A gang restarts after the end of all its ranks, also of those on a host that does not answer.
    if (!knows_all_hosts(plan->policy.gang == Gang::one)) return false;
    if (lose_unheard(now)) return true;
    for (auto& [host, part] : parts_) part.is_missed = !part.are_ranks_known();
    revival_.begin(mesh, *plan, now);
  }
  revival_.follow_hosts(mesh);
  return false;
}

void MeshController::add_restart_orders(const HostAddr& host, Actions& actions, Time now) {
  if (auto order = revival_.take_stop(host, now))
    actions.orders.push_back({.kind = Order::Kind::stop_gang,
                              .host = host,
                              .stop = std::make_shared<wire::StopProcsT>(std::move(*order)),
                              .ownership = ownership_});
  if (auto order = revival_.take_start(host, now))
    actions.orders.push_back({.kind = Order::Kind::restart,
                              .host = host,
                              .restart = std::make_shared<wire::RestartProcsT>(std::move(*order)),
                              .ownership = ownership_});
}

bool MeshController::has_failed() const {
  if (failed() == 0 || !revival_.is_begun()) return failed() != 0;
  return std::any_of(book().all().begin(), book().all().end(), [this](const auto& entry) {
    return is_failure(entry.second.state) && !revival_.is_waiting(entry.first);
  });
}

void MeshController::take_events(Actions& actions, Time now) {
  ranks_.tell_troubles();
  for (const auto& host : events().take(actions.events, overall(), now))
    parts_.at(host).wants_state = true;
}

bool MeshController::is_over(Time now) const {
  if (book().seen() == 0 || book().live() != 0 || !events().queue().empty()) return false;
  // Without an owner no rank is restarted.
  const bool is_abandoned = owners_.is_abandoned();
  return std::all_of(parts_.begin(), parts_.end(), [&](const Entry& here) {
    const auto& [host, part] = here;
    if (part.is_listed) return part.is_whole && (is_abandoned || !owners_.may_restart_on(host));
    if (!part.absent_since) return false;
    return book().seen() >= size() || now - *part.absent_since >= kAbsenceLimit;
  });
}

bool MeshController::wants(const Entry& here, Order::Kind kind) const {
  const auto& [host, part] = here;
  const bool is_live = book().live_on(host) != 0;
  switch (kind) {
    case Order::Kind::stop:
      // A rank that waits for its next incarnation is stopped, too.
      return stop_.has_value() && part.stop.is_open() &&
             (is_live || (is_ours_ && owners_.may_restart_on(host)));
    case Order::Kind::stream:
      // Where ranks are to be restarted the host has to know us, whatever our address is.
      return part.stream.is_open() && part.is_listed &&
             (is_live || !part.is_whole || !revival_.is_idle(host) ||
              events().queue().holds_any_of(host));
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
  apply_layout(now);
  take_events(actions, now);
  apply_layout(now);
  if (const auto judged = actions.events.size(); judge(actions.events, now)) {
    take_events(actions, now);
    judge(std::span(actions.events).subspan(judged), now);
  }
  take_events(actions, now);
  if (revival_.is_begun()) {
    // All of this goes out at once: an end that a restart follows is no failure of the mesh.
    const auto state = overall();
    for (auto& event : actions.events) event.overall = state;
  }
  if (!parts_.empty() && events().add_end(is_over(now), parts_.begin()->first))
    take_events(actions, now);
  for (auto& here : parts_) {
    auto& [host, part] = here;
    if (part.is_silent) continue;
    add_restart_orders(host, actions, now);
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
  auto next = events().queue().next_due();
  const auto consider = [&next](Time time) { next = next ? std::min(*next, time) : time; };
  if (const auto due = revival_.next_due()) consider(*due);
  using Kind = Order::Kind;
  for (const auto& here : parts_) {
    const auto& [host, part] = here;
    const bool wants_any =
        wants(here, Kind::stop) || wants(here, Kind::stream) || wants(here, Kind::state);
    if (!part.is_silent && wants_any) consider(part.ask_after);
    if (const auto due = revival_.next_due(host); due && !part.is_silent) consider(*due);
    if (part.absent_since && *part.absent_since + kAbsenceLimit > settled_)
      consider(*part.absent_since + kAbsenceLimit);
  }
  return next;
}

bool MeshController::is_forgotten() const noexcept {
  return book().all().empty() && std::none_of(parts_.begin(), parts_.end(), [](const auto& entry) {
           return entry.second.is_listed;
         });
}

std::uint64_t MeshController::live_on(const HostAddr& host) const {
  const auto found = parts_.find(host);
  return found == parts_.end() ? 0 : book().live_on(found->first);
}

std::uint64_t MeshController::unheard() const {
  std::uint64_t ranks = 0;
  for (const auto& [host, part] : parts_) ranks += part.is_silent ? book().live_on(host) : 0;
  return ranks;
}

Status::Kind MeshController::overall() const {
  if (has_failed()) return Status::Kind::failed;
  const bool is_heard = std::any_of(parts_.begin(), parts_.end(), [this](const auto& entry) {
    return book().live_on(entry.first) != 0 && !entry.second.is_silent;
  });
  if (is_heard) return Status::Kind::running;
  const bool is_known = std::all_of(parts_.begin(), parts_.end(),
                                    [](const auto& entry) { return entry.second.is_known(); });
  if (book().seen() == 0 || live() != 0 || is_partial_ || !is_known) return Status::Kind::unknown;
  return Status::Kind::stopped;
}

StatusOverlay MeshController::statuses() const {
  StatusOverlay statuses;
  for (const auto& [number, rank] : book().all()) {
    const bool is_unheard = rank.is_live && parts_.at(*rank.host).is_silent;
    statuses.set(number, number + 1,
                 is_unheard ? Status() : status_of(rank.state, rank.exit_report.get()));
  }
  return statuses;
}

std::vector<WatchEvent> MeshController::known(const RankSet& ranks) const {
  auto told = ranks_.known(ranks);
  revival_.add_given_up(ranks_, told);
  std::map<HostAddr, std::string> silent;
  for (const auto& [host, part] : parts_) {
    if (part.is_silent) silent.emplace(host, part.problem);
  }
  const auto ended_on = parts_.empty() ? HostAddr::local(0) : parts_.begin()->first;
  return events().standing(std::move(told), silent, ended_on, overall());
}

}  // namespace meshbus
