#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus audit`
void add_audit(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
