#include "client/controller/mesh_ranks.h"

#include <algorithm>
#include <memory>

#include "common/wire/control.h"
#include "wire/ranks_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {

RankBook::Change MeshRanks::take(const HostAddr& host, const wire::RankState& state) {
  using Change = RankBook::Change;
  // There is no such rank, whatever the host says.
  const auto& region = events_.region();
  if (region != nullptr && state.rank() >= region->num_ranks()) return Change::none;
  const auto change = book_.take(host, state);
  if (change == Change::none) return change;
  if (change == Change::incarnation) events_.queue().release(state.rank());
  if (state.state() != wire::ProcState::ready || change != Change::state)
    troubles_.forget(state.rank());
  return change;
}

void MeshRanks::tell(std::uint64_t number, Time now) {
  const auto& rank = *book_.find(number);
  auto event = events_.make(*rank.host, rank.state, rank.exit_report);
  if (rank.is_live) {
    events_.queue().add(std::move(event));
  } else {
    events_.queue().add_end(std::move(event), now);
  }
}

void MeshRanks::take_exit_reports(const HostAddr& host, const RankUpdate& update) {
  // From the back: see ReportQueue::report_exit().
  for (auto entry = update.exit_reports.rbegin(); entry != update.exit_reports.rend(); ++entry) {
    const auto* const rank = book_.find((*entry)->rank);
    if (rank == nullptr || rank->host != &host) continue;
    events_.queue().report_exit((*entry)->rank, *entry);
    book_.add_exit_report(host, *entry);
  }
}

void MeshRanks::take_trouble(const HostAddr& host, const wire::RankTrouble& trouble,
                             const RankUpdate& update) {
  const auto* const rank = book_.find(trouble.rank());
  if (rank == nullptr || rank->host != &host || trouble.trouble() > wire::Trouble::MAX) return;
  const bool is_ready = rank->state.state() == wire::ProcState::ready;
  if (!is_ready || rank->state.incarnation() != trouble.incarnation()) return;
  const auto stuck = std::find_if(update.stuck.begin(), update.stuck.end(),
                                  [&](const auto& one) { return one->rank == trouble.rank(); });
  troubles_.take(trouble, stuck == update.stuck.end() ? nullptr : *stuck);
}

void MeshRanks::take_troubles(const HostAddr& host, const RankUpdate& update) {
  for (const auto& trouble : update.troubles) take_trouble(host, trouble, update);
}

void MeshRanks::take_standing(const HostAddr& host, const RankUpdate& update) {
  take_troubles(host, update);
  std::set<std::uint64_t> standing;
  for (const auto& trouble : update.troubles) standing.insert(trouble.rank());
  troubles_.clear_all_but(standing, [&](std::uint64_t number) {
    const auto* const rank = book_.find(number);
    return rank != nullptr && rank->host == &host;
  });
}

void MeshRanks::tell_troubles() {
  for (const auto& trouble : troubles_.take_untold()) {
    const auto& rank = *book_.find(trouble.rank());
    auto event = events_.make(*rank.host, rank.state, rank.exit_report);
    event.kind = WatchEvent::Kind::trouble;
    event.trouble = trouble;
    event.stuck = troubles_.stuck(trouble.rank());
    events_.queue().add(std::move(event));
  }
}

bool MeshRanks::add_unheard(const HostAddr& host, const std::vector<std::uint64_t>& ranks) {
  bool is_any = false;
  for (const auto number : ranks) {
    if (book_.find(number) != nullptr) continue;
    wire::RankState state;
    state.mutate_rank(number);
    state.mutate_state(wire::ProcState::ready);
    book_.take(host, state);
    is_any = true;
  }
  return is_any;
}

void MeshRanks::lose_all_but(const HostAddr& host, const std::set<std::uint64_t>& those,
                             std::uint64_t leaving, Time now) {
  for (const auto number : book_.others_on(host, those, /*is_live=*/true)) {
    auto exit_report = std::make_shared<wire::ExitReportT>();
    exit_report->rank = number;
    if (number >= leaving) {
      exit_report->reason = "stopped: it was taken out of the mesh";
      exit_report->cause = wire::Cause::stopped;
      book_.lose(number, std::move(exit_report), wire::ProcState::stopped);
    } else {
      exit_report->reason = "host lost: " + host.to_string() +
                            ": its agent does not know this rank: the host was started again";
      exit_report->code = wire::ErrorCode::host_unreachable;
      exit_report->cause = wire::Cause::host_lost;
      exit_report->consequence = true;
      book_.lose(number, std::move(exit_report));
    }
    troubles_.forget(number);
    tell(number, now);
  }
}

bool MeshRanks::move(std::uint64_t number, const HostAddr& host, Time now) {
  const auto* const rank = book_.find(number);
  if (rank == nullptr || rank->host == &host) return false;
  if (rank->is_live) {
    auto exit_report = std::make_shared<wire::ExitReportT>();
    exit_report->rank = number;
    exit_report->reason = "host lost: " + rank->host->to_string() +
                          ": its owner starts the rank again on host " + host.to_string();
    exit_report->code = wire::ErrorCode::host_unreachable;
    exit_report->cause = wire::Cause::host_lost;
    exit_report->consequence = true;
    book_.lose(number, std::move(exit_report));
    troubles_.forget(number);
    tell(number, now);
  }
  book_.move(number, host);
  return true;
}

void MeshRanks::forget_all_but(const HostAddr& host, const std::set<std::uint64_t>& those) {
  for (const auto number : book_.others_on(host, those, /*is_live=*/false)) {
    if (!events_.queue().holds(number)) book_.forget(number);
  }
}

bool MeshRanks::is_any_untold_from(std::uint64_t first) const {
  const auto& ranks = book_.all();
  return std::any_of(ranks.lower_bound(first), ranks.end(), [this](const auto& entry) {
    return entry.second.is_live || events_.queue().holds(entry.first);
  });
}

void MeshRanks::resize(const Region& region) {
  for (auto number = region.num_ranks(); number < events_.region()->num_ranks(); ++number) {
    troubles_.forget(number);
    book_.drop(number);
  }
  events_.set_region(std::make_shared<const Region>(region));
}

std::vector<WatchEvent> MeshRanks::known(const RankSet& ranks) const {
  std::vector<WatchEvent> events;
  for (const auto& [number, rank] : book_.all()) {
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
  return events;
}

}  // namespace meshbus
