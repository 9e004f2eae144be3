#pragma once

#include "cli/command_line.h"

namespace meshbus::cli {

/// `meshbus spawn`. Returns the exit code.
int spawn_command(const SpawnArguments& arguments);

}  // namespace meshbus::cli
