#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus top`
void add_top(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
