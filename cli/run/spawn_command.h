#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus spawn`: starts a mesh on running hosts and leaves it to a controller.
void add_spawn(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
