#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus logs`
void add_logs(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
