#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus cp`
void add_cp(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
