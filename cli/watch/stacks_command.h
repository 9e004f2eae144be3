#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus stacks`
void add_stacks(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
