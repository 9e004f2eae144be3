#pragma once

#include "cli/command_line.h"
#include "meshbus/client.h"

namespace meshbus::cli {

/// `meshbus status`. Returns the exit code: 0; 1 no such mesh, a host that does not answer, or a rank that did not get there, or failed.
int status_command(Context& context, const HostMesh& hosts, const HostsArguments& arguments);

}  // namespace meshbus::cli
