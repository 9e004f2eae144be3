#pragma once

#include <chrono>
#include <map>

#include "client/src/context/context_core.h"
#include "meshbus/mesh_statuses.h"

namespace meshbus {

/// Asks the hosts of a mesh for the statuses of its ranks, all at once. Those that are in
/// `problems`, or have ended by proof, are not asked.
MeshStatuses ask_statuses(ContextCore& core, Connection& connection, const ProcMeshRef& mesh,
                          const std::map<HostAddr, Error>& problems,
                          std::chrono::milliseconds deadline);

}  // namespace meshbus
