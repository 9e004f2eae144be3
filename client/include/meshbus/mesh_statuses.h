#pragma once

#include <chrono>
#include <map>

#include "meshbus/address.h"
#include "meshbus/context.h"
#include "meshbus/proc_mesh_ref.h"
#include "meshbus/result.h"
#include "meshbus/status_mesh.h"

namespace [[gnu::visibility("default")]] meshbus {

/// The statuses of the ranks of a mesh, as their hosts told them when they were asked. A plain
/// value.
///
///     auto ref = *ProcMeshRef::parse("trainers-13Se1Maqzryj[8]:tcp:h1:7420@gpu=8/1");
///     auto now = *MeshStatuses::ask(context, ref);
///     to_string(now.statuses);                  // "Running=0..4;Unknown=4..8"
///     now.unreachable;                          // {tcp:h2:7420: host_unreachable: ...}
struct MeshStatuses {
  /// By ordinal in the view that was asked for. NotExist is not there (any more); Unknown is on a
  /// host of `unreachable`.
  StatusMesh statuses;
  /// Hosts that did not answer, and why.
  std::map<HostAddr, Error> unreachable = {};

  /// Asks the hosts of a mesh of any launcher, or of a slice of it, all at once. The Context needs
  /// no host mesh: without one that knows these hosts it connects to one of them for the time of
  /// the question, the first that answers. Whatever the hosts do, the answer is there soon after
  /// `deadline`, and a host without an answer takes nothing from the others; one whose socket on
  /// this machine nobody serves, or that is known to have ended, takes no time at all.
  /// Errors: would_block, refused (after fork).
  [[nodiscard]] static Result<MeshStatuses> ask(
      Context& context, const ProcMeshRef& mesh,
      std::chrono::milliseconds deadline = std::chrono::seconds(3));
};

}  // namespace meshbus
