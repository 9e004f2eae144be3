#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include <sys/types.h>

#include "agent/keeper/births.h"
#include "agent/keeper/event_set.h"
#include "agent/keeper/mesh_cgroups.h"
#include "agent/keeper/proc_table.h"
#include "agent/keeper/process_starter.h"
#include "agent/keeper/rank_template.h"
#include "agent/keeper/spawn_queue.h"

namespace meshbus::keeper {

/// The templates of the host's meshes, at most one each, and the procs that are copied from them.
/// What happens to a template, and to the procs that wait for it:
///
/// | event                             | template   | procs that wait                          |
/// |-----------------------------------|------------|------------------------------------------|
/// | a proc, and no template           | start      | wait; it cannot be started: refuse       |
/// | ready                             | -          | ask for the first copy                   |
/// | born                              | -          | let the copy run, ask for the next       |
/// | failed, or nonsense               | kill       | refuse with its reason                   |
/// | it ends before it was ready       | -          | refuse                                   |
/// | it ends later                     | start anew | wait; second time for this proc: refuse  |
/// | a copy under way is cancelled     | kill       | wait                                     |
/// | no copies and no work for 10 s    | kill       | -                                        |
///
/// One thread.
class Templates {
 public:
  using Clock = RankTemplate::Clock;
  /// The number of a template's socket in the event set is this plus its pid.
  static constexpr std::uint64_t kSources = 0x3'0000'0000;

  Templates(Births& births, EventSet& events, ProcTable& table, MeshCgroups& cgroups)
      : births_(births), events_(events), table_(table), cgroups_(cgroups) {}

  /// The proc becomes a copy of the template of its mesh, which is started if need be.
  void start(QueuedProcess queued, ProcessStarter& starter);
  /// The template with this pid has said something.
  void on_event(pid_t pid, ProcessStarter& starter);
  /// A process of a mesh is reaped: a template, or a proc. Returns what another template has to
  /// copy.
  std::vector<QueuedProcess> on_end(pid_t pid, const std::string& mesh, const std::string& how);

  bool knows(std::uint64_t id) const;
  /// Takes a proc out. False: it does not wait for a template.
  bool cancel(std::uint64_t id);
  /// Takes out all procs of a mesh and returns them.
  std::vector<std::uint64_t> cancel_mesh(const std::string& mesh);
  /// Whether a child of ours is a copy that was not told to us yet.
  bool is_unborn(pid_t pid) const;
  /// Ends those that have had no use for long.
  void end_idle(Clock::time_point now);
  /// When end_idle() is due.
  Clock::time_point due() const;

 private:
  RankTemplate* find(const std::string& mesh);
  RankTemplate* add(const QueuedProcess& queued, ProcessStarter& starter);
  void ask(RankTemplate& one, ProcessStarter& starter);
  void enter(RankTemplate& one, UniqueFd pidfd);
  static void kill(const RankTemplate& one);
  void refuse(const QueuedProcess& queued, const os::SpawnFailure& failure);

  Births& births_;
  EventSet& events_;
  ProcTable& table_;
  MeshCgroups& cgroups_;
  std::list<RankTemplate> all_;
};

}  // namespace meshbus::keeper
