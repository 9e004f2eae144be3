#pragma once

#include <string>

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

/// "meshbus-context-add" of the command `meshbus context add`.
std::string man_name(const CLI::App& app);

/// The page of a command in section 1, for man(1): the same text as its `--help`.
std::string man_page(const CLI::App& app, const std::string& version);

}  // namespace meshbus::cli
