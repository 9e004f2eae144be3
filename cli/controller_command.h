#pragma once

#include "cli/command_line.h"

namespace meshbus::cli {

/// `meshbus controller`. Returns the exit code.
int controller_command(const ControllerArguments& arguments);

}  // namespace meshbus::cli
