#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;

/// `meshbus grow` and `meshbus shrink`: orders for another size of a mesh, to its launcher.
void add_grow(CLI::App& app, Commands& commands);
void add_shrink(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
