#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "client/cli/command_line.h"
#include "common/config_keys.h"

namespace meshbus::cli {

/// `meshbus config`: every setting, its value, where that came from, and what it means. Returns the exit code: 0, or 2 when a setting is
/// wrong.
int config_command(const ConfigArguments& arguments);

/// Whether that key has that value with these `--set`s over what the process finds. A setting that is wrong is told by whoever else reads
/// it: then false.
bool is_set(const std::vector<std::string>& settings, WordKey key, std::string_view value);

}  // namespace meshbus::cli
