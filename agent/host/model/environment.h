#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/host/model/mesh_spec.h"

namespace meshbus::host {

/// The environment of procs (spec 4.5). Pure. An entry is "NAME=VALUE".
using Environment = std::vector<std::string>;

/// The variables that the procs of a mesh share: `inherited` (the agent's own; left out when the
/// command wants a clean one), then the command's own over it, then WORLD_SIZE, LOCAL_WORLD_SIZE,
/// NODE_RANK, MASTER_ADDR, MASTER_PORT, MESHBUS_SIZE_<LABEL> and MESHBUS_MESH over both. Variables
/// that name a proc are never inherited, because the spawning process may be a proc itself.
Environment shared_environment(const MeshSpec& spec, const Environment& inherited);

/// The variables of one rank, over the shared part: RANK, LOCAL_RANK, MESHBUS_RANK_<LABEL>,
/// MESHBUS_RESTARTS, MESHBUS_ADDR.
Environment rank_environment(const MeshSpec& spec, std::uint64_t rank, std::uint32_t restarts = 0);

/// "dim/0" -> "DIM_0"
std::string variable_of_label(std::string_view label);

/// The environment of this process.
Environment own_environment();

}  // namespace meshbus::host
