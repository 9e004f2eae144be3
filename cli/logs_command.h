#pragma once

#include "cli/command_line.h"

namespace meshbus::cli {

/// `meshbus logs`. Returns the exit code (see its help).
int logs_command(const LogsArguments& arguments);

}  // namespace meshbus::cli
