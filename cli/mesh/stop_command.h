#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus stop`
void add_stop(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
