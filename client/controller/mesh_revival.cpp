#include "client/controller/mesh_revival.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "client/controller/supervision_event.h"
#include "common/wire/control.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {
namespace {

/// How often each of these was started before; empty: one of them is not known.
std::vector<std::uint32_t> restarts_of(const RankSet& ranks, const RankBook& book) {
  std::vector<std::uint32_t> all;
  for (const auto& block : ranks) {
    for (auto number = block.begin; number < block.end; ++number) {
      const auto* const rank = book.find(number);
      if (rank == nullptr) return {};
      all.push_back(static_cast<std::uint32_t>(rank->state.restarts()));
    }
  }
  return all;
}

}  // namespace

MeshRevival::Host* MeshRevival::find(const HostAddr& host) {
  const auto found = hosts_.find(host);
  return found == hosts_.end() ? nullptr : &found->second;
}

// --- What is decided. ---

void MeshRevival::begin(const Mesh& mesh, const RestartPlan& plan, Time now) {
  auto& said = mesh.ranks.events();
  std::vector<WatchEvent> ends;
  std::map<std::uint64_t, std::uint64_t> live;
  for (const auto& [number, rank] : mesh.ranks.book().all()) {
    // Its exit report says whether it is a consequence.
    if (said.queue().holds(number)) return;
    if (rank.is_live) {
      live.emplace(number, rank.state.restarts());
    } else {
      ends.push_back(said.make(*rank.host, rank.state, rank.exit_report));
    }
  }
  std::stable_sort(ends.begin(), ends.end(), is_earlier_end);
  std::vector<RankReport> reports;
  for (const auto& end : ends) reports.push_back(to_rank_report(end));
  restarts_.emplace(plan, said.region()->num_ranks(), std::hash<std::string>()(said.mesh()));
  take_stops(mesh);
  carry_out(mesh.ranks, restarts_->begin(std::move(reports), std::move(live), now));
}

void MeshRevival::on_state(MeshRanks& ranks, const HostAddr& host, const wire::RankState& state) {
  const bool is_live = !is_terminal(state.state());
  if (auto* const there = find(host))
    there->orders.on_state(state.rank(), is_live, state.restarts());
  if (restarts_ && is_live) carry_out(ranks, restarts_->on_live(state.rank(), state.restarts()));
}

void MeshRevival::on_told(MeshRanks& ranks, std::span<const WatchEvent> events, Time now) {
  if (!restarts_) return;
  for (const auto& event : events) {
    if (event.kind == WatchEvent::Kind::state && is_terminal(event.rank.state()))
      carry_out(ranks, restarts_->on_end(to_rank_report(event), now));
  }
  carry_out(ranks, restarts_->turn(now));
}

void MeshRevival::stop(MeshRanks& ranks, const RankSet& stopped) {
  if (restarts_) carry_out(ranks, restarts_->stop(stopped));
}

void MeshRevival::take_stops(const Mesh& mesh) {
  for (const auto& [host, owner] : mesh.owners.all()) {
    auto& there = hosts_[host];
    if (owner.stopped == there.stopped) continue;
    there.stopped = owner.stopped;
    std::vector<std::uint64_t> ranks;
    for (const auto number : mesh.layout.ranks_on(host)) {
      if (contains(there.stopped, number)) ranks.push_back(number);
    }
    if (!ranks.empty()) stop(mesh.ranks, to_rank_set(ranks));
  }
}

void MeshRevival::follow_hosts(const Mesh& mesh) {
  if (!restarts_) return;
  // Somebody has stopped the mesh at its hosts, or some of its ranks.
  if (const auto plan = mesh.owners.restarts(); plan && plan->is_over) stop(mesh.ranks, {});
  take_stops(mesh);
  if (!restarts_->is_over()) return;
  for (const auto& [host, owner] : mesh.owners.all()) {
    auto& orders = hosts_[host].orders;
    if (owner.may_restart) {
      orders.end();
    } else {
      orders.on_ended();
    }
  }
}

void MeshRevival::carry_out(MeshRanks& ranks, MeshRestarts::Outcome outcome) {
  const auto& book = ranks.book();
  for (auto& notice : outcome.notices) {
    const auto* const cause = book.find(notice.cause);
    if (cause == nullptr) continue;
    auto event = ranks.events().make(
        notice.is_given_up ? WatchEvent::Kind::given_up : WatchEvent::Kind::restarting,
        *cause->host);
    event.ranks = std::move(notice.ranks);
    event.problem = std::move(notice.words);
    if (event.kind == WatchEvent::Kind::restarting) event.restarts = restarts_of(event.ranks, book);
    ranks.events().queue().add(std::move(event));
  }
  for (const auto& stop : outcome.stops) {
    for (const auto number : stop.ranks) {
      const auto* const rank = book.find(number);
      if (rank != nullptr && rank->is_live)
        hosts_[*rank->host].orders.stop(number, stop.cause, stop.why);
    }
  }
  for (const auto number : outcome.cancelled) {
    if (const auto* const rank = book.find(number); rank != nullptr)
      hosts_[*rank->host].orders.cancel(number);
  }
  for (const auto& [number, restarts] : outcome.starts) {
    if (const auto* const rank = book.find(number); rank != nullptr)
      hosts_[*rank->host].orders.start(number, restarts);
  }
}

std::optional<RestartPlan> MeshRevival::plan(Time now) const {
  if (!restarts_) return std::nullopt;
  return restarts_->plan(now);
}

void MeshRevival::add_given_up(const MeshRanks& ranks, std::vector<WatchEvent>& events) const {
  if (!restarts_) return;
  for (const auto& notice : restarts_->given_up()) {
    const auto* const cause = ranks.book().find(notice.cause);
    if (cause == nullptr) continue;
    events.push_back(ranks.events().make(WatchEvent::Kind::given_up, *cause->host));
    events.back().ranks = notice.ranks;
    events.back().problem = notice.words;
  }
}

// --- What each host is to do. ---

std::optional<wire::StopProcsT> MeshRevival::take_stop(const HostAddr& host, Time now) {
  auto* const there = find(host);
  return there == nullptr ? std::nullopt : there->orders.take_stop(now);
}

std::optional<wire::RestartProcsT> MeshRevival::take_start(const HostAddr& host, Time now) {
  auto* const there = find(host);
  return there == nullptr ? std::nullopt : there->orders.take_start(now);
}

void MeshRevival::on_stop_answer(const HostAddr& host, bool is_done, Time now) {
  hosts_[host].orders.on_stop_answer(is_done, now);
}

void MeshRevival::on_start_answer(MeshRanks& ranks, const HostAddr& host,
                                  const Result<void>& answer, Time now) {
  for (const auto rank : hosts_[host].orders.on_start_answer(answer, now)) {
    if (restarts_) carry_out(ranks, restarts_->on_refused(rank, answer.error().to_string(), now));
  }
}

void MeshRevival::on_connected(const HostAddr& host) {
  if (auto* const there = find(host)) there->orders.on_connected();
}

bool MeshRevival::is_idle(const HostAddr& host) const {
  const auto found = hosts_.find(host);
  return found == hosts_.end() || found->second.orders.is_idle();
}

std::optional<MeshRevival::Time> MeshRevival::next_due() const {
  return restarts_ ? restarts_->next_due() : std::nullopt;
}

std::optional<MeshRevival::Time> MeshRevival::next_due(const HostAddr& host) const {
  const auto found = hosts_.find(host);
  return found == hosts_.end() ? std::nullopt : found->second.orders.next_due();
}

}  // namespace meshbus
