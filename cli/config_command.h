#pragma once

#include "cli/command_line.h"

namespace meshbus::cli {

/// `meshbus config`: every setting, its value, where that came from, and what it means. Returns the exit code: 0, or 2 when a setting is
/// wrong.
int config_command(const ConfigArguments& arguments);

/// The settings that are for the warden itself. One that is wrong is told by the roles, which read it too.
void apply_settings(WardenOptions& options);

}  // namespace meshbus::cli
