#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus bench`
void add_bench(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
