#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "cli/run/input_pump.h"
#include "cli/run/job_hosts.h"
#include "cli/run/mpi_job.h"
#include "cli/run/run_events.h"
#include "cli/run/run_job.h"
#include "cli/support/output_writer.h"
#include "meshbus/client.h"

namespace meshbus::cli {

/// What one attempt of a run consists of beside its hosts, in the order in which it comes to be; it
/// goes in the opposite one.
struct JobParts {
  std::unique_ptr<OutputWriter> writer;
  /// Only of an MPI job.
  std::unique_ptr<MpiJob> mpi;
  std::unique_ptr<ProcMesh> mesh;
  /// Only when some rank reads our stdin.
  std::unique_ptr<InputPump> pump;
  /// From SIGTERM to SIGKILL, as asked for or configured.
  std::chrono::milliseconds grace{10'000};
  /// The hosts could not be started or reached: the command line is not wrong.
  bool is_hosts_fault = false;
  /// From here on there may be ranks. To be read on any thread.
  std::atomic<bool> is_spawning = false;
};

/// Refuses what can be refused, then starts or finds the hosts, or in a later attempt chooses other
/// ones, and spawns the mesh; its events go to `events`. Blocks; takes no signals. Errors:
/// configuration_error and parse_error for what is wrong with the arguments (unless
/// is_hosts_fault), and those of HostMesh.
Result<void> start_job(const RunArguments& arguments, RunEvents& events, JobHosts& hosts,
                       JobParts& parts);

/// Our own words on stderr must not keep us from acting: a reader that takes more than
/// 200 ms misses them.
void say(const std::string& text);

}  // namespace meshbus::cli
