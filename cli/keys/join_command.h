#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/warden/warden.h"

namespace meshbus::cli {

/// For `meshbus host --join TOKEN@ADDRESS`: makes this host's key pair, becomes known to those
/// hosts by one-time tokens, gets the keys that they know, and writes the address that this host is
/// known by into `options`, unless it is there. When that fails, stderr says why and the exit code
/// is returned. Leaves no thread and no descriptor behind.
std::optional<int> join_hosts(const std::vector<std::string>& invitations, WardenOptions& options);

}  // namespace meshbus::cli
