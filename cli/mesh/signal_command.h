#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus signal`
void add_signal(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
