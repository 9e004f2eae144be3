#pragma once

#include "cli/command_line.h"

namespace meshbus::cli {

/// `meshbus watch`. Returns the exit code (see its help).
int watch_command(const HostsArguments& arguments);

}  // namespace meshbus::cli
