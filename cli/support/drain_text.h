#pragma once

#include <string>

#include "meshbus/host_mesh.h"

namespace meshbus::cli {

/// "mesh train of tcp:h1:7420,client-1", "all meshes"
std::string drain_scope(const std::string& mesh, const std::string& owner);

/// "all meshes, asked for by a command or launcher at ADDRESS: maintenance; 3 procs left; held"
std::string drain_text(const DrainReport& drain);

}  // namespace meshbus::cli
