#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "cli/run/mpi_program.h"
#include "cli/run/role_arguments.h"
#include "cli/run/run_events.h"
#include "meshbus/client.h"

namespace meshbus::cli {

/// What `run --mpi` adds to a run: a helper on each host, as a mesh of its own that is there before
/// the ranks and after them, and a program in front of each rank's.
class MpiJob {
 public:
  /// What the ranks of this role speak; nothing when they are no MPI program, or are not to be
  /// served (--mpi=none). Errors: configuration_error: the command is an MPI program and --mpi is
  /// not given, or does not fit, or what it does not go together with.
  static Result<std::optional<MpiWire>> choose(const RoleArguments& arguments, std::uint64_t ranks);

  /// Starts the helpers and waits until they are ready. Errors: those of HostMesh::spawn().
  static Result<std::unique_ptr<MpiJob>> start(HostMesh& hosts, const std::string& name,
                                               std::uint64_t ranks, MpiWire wire,
                                               RunEvents& events);
  /// Has the ranks begin with their helper.
  void wrap(ProcSpec& spec) const;
  /// Ends the helpers, and hears what they still have to say. Best effort.
  void stop();

 private:
  explicit MpiJob(HostMesh& hosts) : hosts_(hosts) {}

  HostMesh& hosts_;
  std::string name_;
  std::string job_;
  std::unique_ptr<ProcMesh> helpers_;
};

}  // namespace meshbus::cli
