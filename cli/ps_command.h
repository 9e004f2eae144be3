#pragma once

#include "cli/command_line.h"

namespace meshbus::cli {

/// `meshbus ps`: hosts, and what runs on them. Returns the exit code: 0, 1 when a host does not answer, 2 for wrong usage.
int ps_command(const HostsArguments& arguments);

}  // namespace meshbus::cli
