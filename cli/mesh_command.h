#pragma once

#include "cli/command_line.h"

namespace meshbus::cli {

/// `meshbus mesh show|ranks|slice|group|merge`: the algebra of meshes for people and scripts. Needs no host. Returns the exit code: 0, or 2
/// when a text is wrong; stderr then shows it with a caret under the place.
int mesh_command(const MeshArguments& arguments);

}  // namespace meshbus::cli
