#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus host`: serves this machine.
void add_host(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
