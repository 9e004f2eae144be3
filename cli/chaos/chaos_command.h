#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus chaos`
void add_chaos(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
