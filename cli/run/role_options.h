#pragma once

#include "cli/run/role_arguments.h"
#include "cli/support/cli11_types.h"

namespace meshbus::cli {

/// What each program of a run has for itself: ranks, limits, restarts, MPI, and its place in the
/// job. Not its name and its hosts, which are said in different ways.
void add_role_options(CLI::App& verb, RoleArguments& role);
/// --name
void add_role_name(CLI::App& verb, RoleArguments& role);

}  // namespace meshbus::cli
