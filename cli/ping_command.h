#pragma once

#include "cli/command_line.h"

namespace meshbus::cli {

/// `meshbus ping`: each host by a connection of its own, so that none stands between. Exit code 0 when all answer.
int ping_command(const HostsArguments& arguments);

}  // namespace meshbus::cli
