#pragma once

#include <optional>

#include "cli/command_line.h"

namespace meshbus::cli {

/// For `meshbus host --join`: makes this host's key pair, becomes known to those hosts by one-time tokens, gets the keys that they know,
/// and writes into `arguments` by which address this host is known, where nobody has said so. When that cannot be (it has been said on
/// stderr): the exit code, 2 for wrong usage and 69. No thread of its own is left, and no descriptor.
std::optional<int> join_hosts(HostArguments& arguments);

}  // namespace meshbus::cli
