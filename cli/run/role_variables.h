#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "meshbus/proc_mesh_ref.h"

namespace meshbus::cli {

/// A role as the others find it.
struct RoleAddress {
  std::string name;
  ProcMeshRef ranks;
  /// Free on the host of its rank 0; 0: it has no rank.
  std::uint16_t port = 0;
};

/// What sockets of a rank on that host are reached by. Pure.
std::string role_machine(const HostAddr& host);

/// The variables of the ranks of role number `own`: MESHBUS_ROLE, MESHBUS_ROLES,
/// MESHBUS_LISTEN_PORT, and for each role MESHBUS_ROLE_<NAME> (a reference of its ranks),
/// MESHBUS_ROLE_<NAME>_ADDR and _PORT (where its rank 0 may listen), MESHBUS_ROLE_<NAME>_HOSTS
/// (the machines of its ranks, in their order). Pure.
std::vector<std::pair<std::string, std::string>> role_variables(
    const std::vector<RoleAddress>& roles, std::size_t own);

}  // namespace meshbus::cli
