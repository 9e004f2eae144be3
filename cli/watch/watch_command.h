#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus watch`
void add_watch(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
