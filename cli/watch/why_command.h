#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus why`
void add_why(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
