#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/help/completion.h"

/// How bash, zsh and fish ask for completions, and what they read. Pure.
namespace meshbus::cli {

enum class Shell { bash, zsh, fish };

std::optional<Shell> parse_shell(std::string_view name);

/// The script that a shell sources once: it asks `meshbus complete SHELL -- WORDS...` at each tab.
std::string completion_script(Shell shell);

/// The words of a command line as far as it was typed; quotes and backslashes are taken off. The
/// last one is what stands at the cursor, and is empty behind a blank.
std::vector<std::string> split_line(std::string_view line);

/// What the script reads: "nothing", "files" or "command N" in the first line, then a candidate in
/// each. bash takes a word apart at ':' and '=', so it gets what follows the last of these in
/// `last`.
std::string completion_lines(Shell shell, const Completion& completion, const std::string& last);

}  // namespace meshbus::cli
