#pragma once

#include "cli/command_line.h"

namespace meshbus::cli {

/// `meshbus config RANKS`: what live mesh procs go by, changed first when that is wanted. Returns the exit code: 0; 1 when a rank did not
/// answer, or refused; 2 wrong usage.
int proc_config_command(const ConfigArguments& arguments);

}  // namespace meshbus::cli
