#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/run/run_job.h"
#include "meshbus/extent.h"
#include "meshbus/host_mesh_ref.h"
#include "meshbus/result.h"

/// How many ranks the roles of a job have, and how they are arranged. Pure.
namespace meshbus::cli {

/// The base of the names of its mesh: as said, or "train" of "/opt/bin/train.sh"; what cannot stand
/// in a name becomes '_'.
std::string mesh_name(const RoleArguments& role);
/// Gives roles whose names were not said, and would be equal, a number: python, python_2. Errors:
/// configuration_error: two names that were said are equal, or give equal variables.
Result<void> name_roles(std::vector<RoleArguments>& roles);

/// The ranks of the role on so many hosts.
std::uint64_t role_size(const RoleArguments& role, std::uint64_t hosts);
/// The extent of the mesh that spawn() or spawn_n() will make.
Result<Extent> mesh_extent(const RoleArguments& role, const HostMeshRef& on, std::uint64_t size);

/// "trainer: " in front of what is wrong with a role, or where that role was said; empty for the
/// only one.
std::string place_of(const RunArguments& run, const RoleArguments& role);

/// The ranks of the first role that read our stdin. Errors: configuration_error.
Result<std::vector<std::uint64_t>> input_ranks(const RunArguments& run, std::uint64_t size);

}  // namespace meshbus::cli
