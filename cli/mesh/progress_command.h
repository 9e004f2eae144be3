#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus progress`
void add_progress(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
