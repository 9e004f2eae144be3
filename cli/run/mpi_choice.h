#pragma once

#include <cstdint>
#include <optional>

#include "cli/run/role_arguments.h"
#include "client/src/mpi/mpi_program.h"
#include "meshbus/result.h"

namespace meshbus::cli {

/// What the ranks of this role speak; nothing when they are no MPI program, or are not to be served
/// (--mpi=none). Errors: configuration_error: the command is an MPI program and --mpi is not given,
/// or does not fit, or what it does not go together with.
Result<std::optional<MpiWire>> choose_mpi(const RoleArguments& arguments, std::uint64_t ranks);

}  // namespace meshbus::cli
