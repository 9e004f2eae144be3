#pragma once

#include "cli/command_line.h"

namespace meshbus::cli {

/// `meshbus tap`. Returns the exit code (see its help).
int tap_command(const TapArguments& arguments);

}  // namespace meshbus::cli
