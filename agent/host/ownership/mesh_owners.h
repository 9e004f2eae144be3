#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "agent/host/lifecycle/proc_ending.h"
#include "agent/host/model/proc_table.h"
#include "agent/host/output/output_reader.h"
#include "agent/host/records/event_book.h"

namespace meshbus::host {

/// Carries out what becomes of meshes by their owners: leases, lost owners, handover
/// (docs/decisions/0051-restarts-go-with-the-mesh.md). MeshOwnership decides. Lives on the
/// reactor's thread.
class MeshOwners {
 public:
  /// `host`: for people.
  MeshOwners(Reactor& reactor, ProcTable& table, ProcEnding& ending, OutputReader& outputs,
             EventBook& events, std::string host)
      : reactor_(reactor),
        table_(table),
        ending_(ending),
        outputs_(outputs),
        events_(events),
        host_(std::move(host)) {}
  ~MeshOwners();
  MeshOwners(const MeshOwners&) = delete;
  MeshOwners& operator=(const MeshOwners&) = delete;

  /// Checks the lease of that mesh when it is due. Call it for each mesh that is new here.
  void arm(const Mesh& mesh);
  /// Length 0: as long as before.
  void renew_lease(Mesh& mesh, std::chrono::milliseconds length);
  /// The owner's connection has ended: stops the mesh within a second, or leaves that to its lease.
  void on_owner_gone(Mesh& mesh);
  /// The owner was heard of.
  void on_owner_back(Mesh& mesh);
  /// As MeshOwnership::move_to().
  bool move_owner(Mesh& mesh, const ProcId& owner, std::uint64_t incarnation);
  /// Another owner answers for this mesh from now on, and its output is streamed to none. With the
  /// same owner only the lease counts from now. Tell the new owner everything afterwards. Errors:
  /// refused (the mesh is being stopped because its owner is gone).
  Result<void> hand_over(Mesh& mesh, const ProcId& owner, std::chrono::milliseconds lease,
                         wire::OwnerLoss loss);
  /// Its owner leaves a restart policy for the one that follows, or what was used of it.
  void keep_restarts(Mesh& mesh, wire::RestartPlanT plan);
  /// The whole mesh is stopped: no rank is restarted by a plan any more.
  void end_restarts(Mesh& mesh);
  /// Somebody stops these ranks of it: none of them is restarted, also one that has ended already.
  void stop_ranks(Mesh& mesh, const std::vector<std::uint64_t>& ranks);
  /// The mesh is forgotten.
  void forget(const Mesh& mesh);

 private:
  void check_lease(const std::string& name);
  void on_lapsed(Mesh& mesh, MeshOwnership::Fate fate);
  /// Followers of the mesh are to be told about its ownership.
  void publish(Mesh& mesh);
  StopOrder make_order(const Mesh& mesh, const char* reason, wire::Cause cause) const;

  Reactor& reactor_;
  ProcTable& table_;
  ProcEnding& ending_;
  OutputReader& outputs_;
  EventBook& events_;
  std::string host_;
  std::map<std::string, Reactor::TimerId> timers_;  ///< One per lease, by mesh.
};

}  // namespace meshbus::host
