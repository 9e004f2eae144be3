#pragma once

#include "cli/command_line.h"

namespace meshbus::cli {

/// `meshbus context`. Returns the exit code.
int context_command(const ContextArguments& arguments);

}  // namespace meshbus::cli
