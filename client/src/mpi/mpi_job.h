#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "client/src/mpi/mpi_program.h"
#include "common/base/mpi_notice.h"
#include "meshbus/host_mesh.h"
#include "meshbus/proc_mesh.h"

namespace meshbus {

/// What makes ranks one MPI job: a helper on each host, as a mesh of its own that is there before
/// the ranks and after them, and a program in front of each rank's.
class MpiJob {
 public:
  /// Both on the handlers' thread.
  struct Events {
    std::function<void(const mpi::Notice&)> on_notice;
    std::function<void(const RankReport&)> on_lost_helper;
  };

  /// What the ranks of that command speak; `wanted`: what they are said to. Errors:
  /// configuration_error: they speak something else, or what serves them is not installed.
  static Result<MpiWire> choose(MpiWire wanted, const std::vector<std::string>& command);

  /// Starts the helpers and waits until they are ready. Errors: those of HostMesh::spawn().
  static Result<std::unique_ptr<MpiJob>> start(HostMesh& hosts, const std::string& name,
                                               std::uint64_t ranks, MpiWire wire, Events events);
  /// Has the ranks begin with their helper.
  void wrap(ProcSpec& spec) const;
  /// Ends the helpers, and hears what they still have to say. Best effort.
  void stop(HostMesh& hosts);
  /// Asks them to end, and does not wait.
  void request_stop();

 private:
  MpiJob() = default;

  std::string name_;
  std::string job_;
  MpiWire wire_ = MpiWire::any;
  std::unique_ptr<ProcMesh> helpers_;
};

/// PATH or LD_LIBRARY_PATH of this process, for find_mpi(); empty: it has none.
std::string own_variable(const char* name);

}  // namespace meshbus
