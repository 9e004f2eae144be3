#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus mesh`: the algebra of meshes given as texts; needs no host.
void add_mesh(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
