#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus shutdown`
void add_shutdown(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
