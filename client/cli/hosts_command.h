#pragma once

#include "client/cli/command_line.h"

namespace meshbus::cli {

/// `meshbus ps`, `stop` and `shutdown`. Returns the exit code: 0, 1 when something could not be done or reached, 2 for wrong usage.
int hosts_command(const HostsArguments& arguments);

}  // namespace meshbus::cli
