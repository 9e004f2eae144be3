#pragma once

#include <memory>
#include <vector>

#include "agent/keeper/mesh_cgroups.h"
#include "agent/keeper/proc_starter.h"
#include "agent/keeper/protocol.h"
#include "agent/keeper/shared_process.h"
#include "agent/keeper/spawn_queue.h"
#include "common/base/unique_fd.h"

namespace meshbus::keeper {

/// Starts a process for one proc or for several, in the cgroups where it belongs. One thread.
class ProcessStarter {
 public:
  ProcessStarter(ProcStarter starter, MeshCgroups& cgroups)
      : starter_(std::move(starter)), cgroups_(cgroups) {}

  /// One birth for each proc of the process. Either all are born, or none is and there is no
  /// process.
  struct Outcome {
    std::vector<Birth> births;
    UniqueFd pidfd;
    std::unique_ptr<SharedProcess> shared;  ///< Set: a process of several procs.
  };
  /// Never fails otherwise than by the births' failure. The mesh's cgroup is joined either way.
  Outcome start(QueuedProcess& queued);

  /// Births in a process that runs already, and what the process is to be told of each.
  struct Joining {
    std::vector<Birth> births;
    std::vector<SharedProcess::Member> members;
    UniqueFd bootstrap;
  };
  /// Makes what procs need that go into process `pid`. A birth that fails has its failure. The
  /// mesh's cgroup is not joined.
  static Joining prepare_to_join(QueuedProcess& queued, pid_t pid, int pidfd);

  /// A template that executed its command; it is not ready yet.
  struct Template {
    pid_t pid = -1;
    UniqueFd pidfd;
    UniqueFd link;  ///< Our end of its socket.
  };
  /// Starts the template of a mesh, in the cgroup of the mesh, which is joined if there is no
  /// failure.
  tl::expected<Template, os::SpawnFailure> start_template(const PreparedSpec& prepared);
  /// Asks the template at the other end of `link` for a copy. The mesh's cgroup is not joined.
  tl::expected<ProcStarter::Copy, os::SpawnFailure> ask_for_copy(const QueuedProcess& queued,
                                                                 int link);

 private:
  ProcStarter::Started start_first(const PreparedSpec& prepared, os::ProcSpec proc, UniqueFd link);

  ProcStarter starter_;
  MeshCgroups& cgroups_;
};

/// Births that say why these procs were not started.
std::vector<Birth> failed_births(const std::vector<std::uint64_t>& ids,
                                 const os::SpawnFailure& failure);

/// Kills a process that was not reported, and reaps it.
void end_unreported(pid_t pid);

}  // namespace meshbus::keeper
