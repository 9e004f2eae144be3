#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus call`
void add_call(CLI::App& app, Commands& commands);
/// `meshbus cast`
void add_cast(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
