#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus completion`, and `meshbus complete`, which the scripts call and no list shows.
void add_completion(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
