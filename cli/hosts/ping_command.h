#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus ping`
void add_ping(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
