#pragma once

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus doctor`
void add_doctor(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
