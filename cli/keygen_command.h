#pragma once

#include "cli/command_line.h"

namespace meshbus::cli {

/// `meshbus keygen`: makes keys, and their public halves where hosts look for them. Prints no secret. Returns the exit code: 0; 2 wrong
/// usage; 125 a key could not be made or is there already.
int keygen_command(const KeygenArguments& arguments);

}  // namespace meshbus::cli
