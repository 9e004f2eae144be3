#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus torchrun`
void add_torchrun(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
