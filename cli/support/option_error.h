#pragma once

#include <string>
#include <vector>

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

/// What CLI11 says of the value of an option, in the form that our own messages have.
std::string option_error(const std::string& text);

/// The long flags of a command: "--hosts".
std::vector<std::string> flags_of(const CLI::App& verb);

/// The first of these words that is a flag which the command does not have; empty: none. Words
/// behind `--` are not looked at.
std::string unknown_flag(const CLI::App& verb, const std::vector<std::string>& words);

}  // namespace meshbus::cli
