#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus config`: settings of this command, or of live procs.
void add_config(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
