#pragma once

#include "cli/command_line.h"

namespace meshbus::cli {

/// `meshbus run`: starts the mesh, shows its output, ends it in bounded time when a rank fails, the time is up or somebody says so, and
/// tells how it ended. Returns the exit code of spec 12.2. Call it on the main thread before any other exists: it takes over signals.
int run_job(const RunArguments& arguments);

}  // namespace meshbus::cli
