#pragma once

#include <optional>
#include <vector>

#include "meshbus/address.h"
#include "meshbus/proc_mesh_ref.h"
#include "meshbus/rank_report.h"
#include "meshbus/result.h"
#include "meshbus/status.h"
#include "meshbus/status_wait.h"
#include "wire/forward.h"

namespace meshbus {

class ControlMessage;

/// The ranks of a view that lie on one host of the mesh.
struct StatusPlace {
  HostAddr host;
  RankSet ranks = {};  // create ranks
  /// Why the host said nothing of them, when it was asked last.
  std::optional<Error> problem = {};
  bool is_settled = false;
};

/// Where the ranks of a view lie. Hosts without a rank of it are not there.
std::vector<StatusPlace> places_of(const ProcMeshRef& mesh);

/// Takes over what a host said of the ranks that it was asked for, or that it said nothing.
void take_answer(StatusWait& wait, const ProcMeshRef& mesh, StatusPlace& place,
                 const Result<ControlMessage>& answer, Status::Kind minimum);

}  // namespace meshbus
