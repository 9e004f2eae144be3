#pragma once

#include "cli/command_line.h"

namespace meshbus::cli {

/// `meshbus call` and `meshbus cast`. Returns the exit code (see their help).
int talk_command(const TalkArguments& arguments);

}  // namespace meshbus::cli
