#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "client/src/context/connection.h"
#include "client/src/context/context_core.h"
#include "client/src/monitors/mesh_monitor.h"
#include "meshbus/proc_mesh.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {

/// Fills in what the spec leaves open, and refuses what cannot work. Errors: configuration_error,
/// refused, io_error.
Result<void> complete(ProcSpec& spec);

/// How the ranks of a mesh are started, at its spawn and whenever it grows: always with the same
/// program, arguments, environment and settings, whatever has become of this launcher meanwhile.
/// For one thread at a time.
class SpawnRecipe {
 public:
  /// `spec` is complete().
  SpawnRecipe(const ContextCore& core, ProcSpec spec) : core_(core), spec_(std::move(spec)) {}

  const ProcSpec& spec() const noexcept { return spec_; }
  /// MASTER_ADDR and MASTER_PORT: where rank 0 may listen. Once; waits. Errors: those of the host.
  Result<void> find_master(Connection& connection, const ProcMeshRef& mesh);
  /// Rank 0 moves to that host: hosts that have ranks of the mesh keep the master that they were
  /// told, and others hear of this one.
  void set_master(const HostAddr& host, std::uint16_t port);
  /// What that host of the mesh is sent to start these ranks of its block. Errors: io_error.
  Result<wire::SpawnProcsT> make(Connection& connection, const MeshMonitor& monitor,
                                 std::uint64_t host, const RankBlock& block);
  /// The owner of the mesh for a host that does not have it, whatever it was told before: this
  /// launcher as it is on the bus now, which make() names from now on, too.
  std::string name_owner_anew(const HostAddr& host, const Connection& connection);
  /// What make() makes from now on is for this revision of the mesh's layout.
  void set_revision(std::uint32_t revision) noexcept { revision_ = revision; }
  std::uint32_t revision() const noexcept { return revision_; }

 private:
  Result<wire::CommandT> command_for(const HostAddr& host);

  const ContextCore& core_;
  const ProcSpec spec_;
  struct Master {
    std::string address = {};
    std::uint16_t port = 0;
  };
  Master master_;
  std::uint32_t revision_ = 0;
  /// For hosts on this machine, and for the others.
  std::optional<wire::CommandT> near_;
  std::optional<wire::CommandT> far_;
  /// The owner and the master, as each host was told first.
  std::map<HostAddr, std::string> owners_;
  std::map<HostAddr, Master> masters_;
};

}  // namespace meshbus
