#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "cli/run/input_pump.h"
#include "cli/run/job_hosts.h"
#include "cli/run/role_variables.h"
#include "cli/run/run_events.h"
#include "cli/run/run_job.h"
#include "cli/support/output_writer.h"
#include "client/src/mpi/mpi_job.h"
#include "meshbus/client.h"

namespace meshbus::cli {

/// What a role consists of in one attempt, in the order in which it comes to be; it goes in the
/// opposite one.
struct RoleParts {
  /// Those of the role alone; null: it is on all hosts of the attempt.
  std::unique_ptr<HostMesh> hosts;
  std::unique_ptr<OutputWriter> writer;
  /// Only of an MPI job.
  std::unique_ptr<MpiJob> mpi;
  HostMesh* mpi_hosts = nullptr;  ///< Where its helpers are.
  std::unique_ptr<ProcMesh> mesh;
  /// Only when some rank reads our stdin.
  std::unique_ptr<InputPump> pump;
  /// From SIGTERM to SIGKILL, as asked for or configured.
  std::chrono::milliseconds grace{10'000};
  /// From here on there may be ranks. To be read on any thread.
  std::atomic<bool> is_spawning = false;
  /// The mesh is there. To be read on any thread.
  std::atomic<bool> is_started = false;
};

/// Refuses what can be refused before anything is started, then starts or finds the hosts. Blocks;
/// takes no signals. Errors: configuration_error and parse_error for what is wrong with the
/// arguments, and those of HostMesh, with `is_hosts_fault` set.
Result<void> prepare_job(const RunArguments& run, JobHosts& hosts, bool& is_hosts_fault);

/// Where the roles of an attempt will be, before any of them is started; sets RoleParts::hosts of
/// each. `parts`: of each role, in order. Errors: those of HostMesh.
Result<std::vector<RoleAddress>> place_roles(const RunArguments& run, JobHosts& hosts,
                                             const std::vector<RoleParts*>& parts);

/// Spawns the mesh of role number `number`; its events go to `events`. Blocks; takes no signals.
/// `places`: see place_roles(). Errors: as prepare_job().
Result<void> start_role(const RunArguments& run, std::size_t number,
                        const std::vector<RoleAddress>& places, JobHosts& hosts, RunEvents& events,
                        RoleParts& parts);

}  // namespace meshbus::cli
