#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus help`
void add_help(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
