#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus ps`
void add_ps(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
