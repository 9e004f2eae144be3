#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus exec`
void add_exec(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
