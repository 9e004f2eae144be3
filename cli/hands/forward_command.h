#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus forward`
void add_forward(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
