#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus context`: keeps lists of hosts under names.
void add_context(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
