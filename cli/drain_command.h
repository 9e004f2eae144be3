#pragma once

#include "cli/command_line.h"
#include "meshbus/client.h"

namespace meshbus::cli {

/// `meshbus drain`. Returns the exit code: 0, 1 when something could not be done or reached.
int drain_command(HostMesh& hosts, const HostsArguments& arguments);

/// A drain in words: "all meshes, asked for by ADDRESS,client-...: maintenance; 3 procs left; held"
std::string words_of(const DrainReport& drain);

}  // namespace meshbus::cli
