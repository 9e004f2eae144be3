#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "meshbus/proc_mesh_ref.h"
#include "meshbus/rank_report.h"
#include "wire/forward.h"

namespace meshbus {

/// The owner of a mesh, which may move from one to another: what its launcher does about that, and
/// what its hosts report. Pure.
class MeshOwners {
 public:
  /// This launcher takes the mesh over, until end_taking(), and may not be its owner everywhere.
  void begin_taking() noexcept { is_taking_ = true; }
  void end_taking() {
    is_taking_ = false;
    owners_.clear();
  }
  bool is_taking() const noexcept { return is_taking_; }
  /// The mesh is going to be handed over to that controller.
  void begin_handover(std::string controller) { handed_to_ = std::move(controller); }
  /// Another owner answers for it from now on.
  void hand_over() noexcept { is_handed_over_ = true; }
  bool is_handed_over() const noexcept { return is_handed_over_; }

  /// A host of `mesh` reports its owner there. Returns whether all hosts with ranks name the
  /// controller that it is being handed to: the handover is done, though it had failed.
  bool take(const ProcMeshRef& mesh, const HostAddr& from, const wire::Ownership& ownership);
  /// Whether that host names `owner`.
  bool names(const HostAddr& host, const std::string& owner) const;
  /// Whether ranks of it may still be restarted somewhere, by whichever owner.
  bool may_restart(const ProcMeshRef& mesh) const;

 private:
  bool is_taking_ = false;
  bool is_handed_over_ = false;
  /// The controller that it is, or was, to be handed to; empty: none.
  std::string handed_to_;
  /// The owner, as each host has said since it moves; empty: nobody.
  std::map<HostAddr, std::string> owners_;
  /// Hosts that say that no rank there is restarted any more.
  std::set<HostAddr> restarts_over_on_;
};

/// The ranks of `mesh` on that host that may begin no other incarnation, as it says.
RankSet stopped_on(const ProcMeshRef& mesh, const HostAddr& host, const wire::Ownership& ownership);

}  // namespace meshbus
