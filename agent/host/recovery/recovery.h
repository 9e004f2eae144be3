#pragma once

#include <string>

#include "agent/host/lifecycle/drains.h"
#include "agent/host/lifecycle/launch_monitor.h"
#include "agent/host/lifecycle/spawn_service.h"
#include "agent/host/ownership/mesh_owners.h"
#include "agent/host/records/event_book.h"
#include "agent/host/records/ledger_writer.h"

namespace meshbus::host {

/// Goes on with the procs of an agent that has ended (docs/decisions/0009-a-new-agent.md): first
/// with what the ledger says, then with what the keeper tells again. Lives on the reactor's thread.
class Recovery {
 public:
  /// What it works with; all of it outlives it.
  struct Parts {
    Reactor& reactor;
    ProcTable& table;
    ProcEnding& ending;
    OutputReader& outputs;
    EventBook& events;
    Drains& drains;
    MeshOwners& owners;
    LaunchMonitor& launches;
    SpawnService& spawns;
  };
  /// `address`: of this host; requests that another agent has accepted are checked again.
  Recovery(const Parts& parts, HostAddr address) : parts_(parts), address_(std::move(address)) {}

  /// Puts what the ledger has into the table. Once, before the first turn.
  void take_over(const Ledger& ledger);
  /// The keeper has told what it knew before this agent: a proc that it did not mention is lost.
  void on_replayed();
  /// Whether procs may be handed to the keeper: it has told all that it knew.
  bool is_replayed() const noexcept { return is_replayed_; }

 private:
  void take_over_mesh(const LeftMesh& left);
  Mesh& restore_mesh(MeshSpec spec, const LeftMesh& left);
  /// Returns whether one of the ranks is still starting.
  bool restore_ranks(Mesh& mesh, const LeftMesh& left,
                     const std::shared_ptr<const Assignment>& assignment,
                     const LogFile::PartsByName& parts);
  void take_over_drains(const Ledger& ledger);

  Parts parts_;
  HostAddr address_;
  bool is_replayed_ = false;
};

}  // namespace meshbus::host
