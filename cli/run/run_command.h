#pragma once

#include <string>
#include <vector>

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
struct RunArguments;
/// `meshbus run`
void add_run(CLI::App& app, Commands& commands);

/// What `meshbus run` does with its arguments and the command behind them: checks them, and runs
/// the job. Returns the exit code.
int run_command(RunArguments& arguments, const std::vector<std::string>& command);

}  // namespace meshbus::cli
