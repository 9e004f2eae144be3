#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus drain`
void add_drain(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
