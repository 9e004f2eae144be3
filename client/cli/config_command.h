#pragma once

#include "client/cli/command_line.h"

namespace meshbus::cli {

/// `meshbus config`: every setting, its value, where that came from, and what it means. Returns the exit code: 0, or 2 when a setting is
/// wrong.
int config_command(const ConfigArguments& arguments);

}  // namespace meshbus::cli
