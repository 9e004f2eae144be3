#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus attach`
void add_attach(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
