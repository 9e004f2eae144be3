#pragma once

#include "cli/command_line.h"

namespace meshbus::cli {

/// `meshbus why`. Returns the exit code (see its help).
int why_command(const WhyArguments& arguments);

}  // namespace meshbus::cli
