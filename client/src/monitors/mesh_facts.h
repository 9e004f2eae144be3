#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "client/src/monitors/mesh_owners.h"
#include "client/src/monitors/rank_table.h"
#include "client/src/monitors/restart_judge.h"
#include "meshbus/proc_mesh.h"
#include "meshbus/proc_mesh_ref.h"

namespace meshbus {

/// What a launcher knows of one mesh and what was told of it, and what follows from that: the
/// failures, restarts and the end that are due. Pure.
struct MeshFacts {
  using Time = RankTable::Time;
  /// What is to be told and ordered now.
  struct Due {
    /// Failures that the table has handed out, for those that listen to ends.
    std::vector<RankReport> ended;
    RestartJudge::Judgement judgement;
    std::optional<Time> next;
    /// All ranks have ended for good, and that was not said.
    bool is_complete = false;
  };

  explicit MeshFacts(const ProcMeshRef& mesh);

  MeshOutcome outcome() const;
  /// Takes a message of a host. `with_reports`: as RankTable::apply(). Ends that are failures are
  /// left out: they are told with their exit reports, by take_due().
  RankTable::Changes take_update(const HostAddr& from, const RankTable::Update& update, Time now,
                                 bool with_reports);
  /// What is due, once. Nothing as long as another owner may restart ranks of `mesh`.
  Due take_due(const ProcMeshRef& mesh, Time now);
  /// These ranks were ordered to begin an incarnation, and it is not wanted any more.
  void cancel_incarnations(const std::vector<std::uint64_t>& ranks, Time now);
  /// These ranks were ordered to begin an incarnation, and cannot. Their reports.
  std::vector<RankReport> fail_incarnations(const std::vector<std::uint64_t>& ranks,
                                            const Error& error, Time now,
                                            std::chrono::system_clock::time_point ended);
  /// `lost` has a spare in its place in `now`; `before` are the hosts that the mesh had.
  void replace_host(const std::vector<HostAddr>& before, const ProcMeshRef& now,
                    const HostAddr& lost);
  /// The mesh gets the ranks that `grown` has more than it; their failures are held until
  /// end_growth().
  void begin_growth(const ProcMeshRef& grown);
  void end_growth();
  /// The ranks that `left` has no more have ended. Their reports.
  std::vector<RankReport> shrink(const ProcMeshRef& left);
  /// Another owner answers for the mesh, and carries out its RestartPolicy.
  void hand_over();
  /// Whether the mesh was handed over with its RestartPolicy, and restarts may follow.
  bool is_restarted_by_others(const ProcMeshRef& mesh) const;

  RankTable table;
  std::optional<JobTrouble> trouble = {};
  /// With a RestartPolicy.
  std::optional<RestartJudge> restarts = {};
  /// Counts the changes of the table.
  std::uint64_t version = 0;
  /// By host: its agent has taken the order to start its ranks.
  std::vector<bool> is_accepted = {};
  /// Failures are for the handlers; before, the maker of the mesh looks at them itself.
  bool is_armed = false;
  bool is_abandoned = false;
  /// No restart is decided: the mesh is being handed over.
  bool are_restarts_paused = false;
  MeshOwners owners = {};
  /// Calls of on_failure and on_end that were posted, and those that have returned.
  std::uint64_t failures_posted = 0;
  std::uint64_t failures_told = 0;
  bool is_end_posted = false;
  bool is_end_told = false;

 private:
  void resize(const ProcMeshRef& mesh);
};

}  // namespace meshbus
