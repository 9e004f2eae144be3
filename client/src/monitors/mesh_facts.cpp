#include "client/src/monitors/mesh_facts.h"

#include <algorithm>

namespace meshbus {

MeshFacts::MeshFacts(const ProcMeshRef& mesh) : table(mesh) {
  is_accepted.resize(mesh.hosts().size());
}

MeshOutcome MeshFacts::outcome() const {
  auto outcome = table.outcome();
  outcome.trouble = trouble;
  return outcome;
}

RankTable::Changes MeshFacts::take_update(const HostAddr& from, const RankTable::Update& update,
                                          Time now, bool with_reports) {
  auto changed = table.apply(from, update, now, with_reports);
  if (changed.is_news) ++version;
  std::erase_if(changed.ended, [](const RankReport& rank) { return rank.is_failure(); });
  if (restarts) {
    for (const auto& rank : changed.ended) {
      if (!table.is_held(rank.rank)) restarts->note_end(rank.rank);
    }
  }
  return changed;
}

MeshFacts::Due MeshFacts::take_due(const ProcMeshRef& mesh, Time now) {
  Due due;
  if (!is_armed || is_abandoned || is_end_posted) return due;
  // Ends may be followed by restarts, about which somebody else decides.
  if (are_restarts_paused || is_restarted_by_others(mesh)) return due;
  due.ended = table.take_failures(now);
  const bool is_ours = restarts && !owners.is_handed_over();
  if (is_ours) {
    due.judgement = restarts->judge(table, due.ended, now);
    if (!due.judgement.starts.empty() || !due.judgement.moves.empty()) ++version;
  } else if (restarts) {
    // The other owner has restarted what it could.
    for (auto& failure : due.ended) {
      failure.is_restarting = false;
      table.set_restarting(failure.rank, false);
      table.decide(failure.rank);
    }
    due.judgement.failures = due.ended;
  } else {
    due.judgement.failures = due.ended;
  }
  failures_posted += due.judgement.failures.size();
  due.next = table.next_due(now);
  const auto restart = is_ours ? restarts->next_due(table, now) : std::nullopt;
  if (restart) due.next = due.next ? std::min(*due.next, *restart) : restart;
  due.is_complete = table.is_complete(now) && !(is_ours && restarts->is_busy());
  return due;
}

void MeshFacts::cancel_incarnations(const std::vector<std::uint64_t>& ranks, Time now) {
  for (const auto rank : ranks) {
    table.cancel_incarnation(rank, now);
    if (!table.rank(rank).is_failure()) restarts->note_end(rank);
  }
  ++version;
}

std::vector<RankReport> MeshFacts::fail_incarnations(const std::vector<std::uint64_t>& ranks,
                                                     const Error& error, Time now,
                                                     std::chrono::system_clock::time_point ended) {
  std::vector<RankReport> reports;
  for (const auto rank : ranks) {
    table.fail_incarnation(rank, error, now, ended);
    reports.push_back(table.rank(rank));
  }
  ++version;
  return reports;
}

void MeshFacts::resize(const ProcMeshRef& mesh) {
  is_accepted.resize(mesh.hosts().size());
  if (restarts) restarts->resize(mesh.root_ranks());
  ++version;
}

void MeshFacts::replace_host(const std::vector<HostAddr>& before, const ProcMeshRef& now,
                             const HostAddr& lost) {
  table.replace_hosts(now);
  restarts->spares().place(lost);
  for (std::uint64_t index = 0; index < before.size(); ++index) {
    if (before[index] == lost) is_accepted[index] = false;
  }
  ++version;
}

void MeshFacts::begin_growth(const ProcMeshRef& grown) {
  if (restarts && restarts->has_spares()) {
    // One that is there again is as good as any.
    for (auto index = is_accepted.size(); index < grown.hosts().size(); ++index)
      restarts->spares().take_back(grown.hosts()[index]);
  }
  table.hold_from(table.size());
  table.grow(grown);
  resize(grown);
}

void MeshFacts::end_growth() {
  for (const auto& rank : table.ranks()) {
    const bool is_done = table.is_held(rank.rank) && rank.is_terminal();
    if (is_done && !rank.is_failure() && restarts) restarts->note_end(rank.rank);
  }
  table.hold_from({});
  ++version;
}

std::vector<RankReport> MeshFacts::shrink(const ProcMeshRef& left) {
  auto reports = table.shrink(left);
  table.hold_from({});
  resize(left);
  return reports;
}

void MeshFacts::hand_over() {
  owners.hand_over();
  are_restarts_paused = false;
  if (!restarts) return;
  table.follow_restarts();
  // A rank that waits for its restart may stay failed after all.
  for (std::uint64_t rank = 0; rank < table.size(); ++rank) {
    if (restarts->is_waiting(rank)) table.retell(rank);
  }
}

bool MeshFacts::is_restarted_by_others(const ProcMeshRef& mesh) const {
  return owners.is_handed_over() && restarts && owners.may_restart(mesh);
}

}  // namespace meshbus
