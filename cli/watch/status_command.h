#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus status`
void add_status(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
