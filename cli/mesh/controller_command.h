#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus controller`
void add_controller(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
