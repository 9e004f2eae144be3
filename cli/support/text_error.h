#pragma once

#include <string>
#include <string_view>

#include "meshbus/result.h"

namespace meshbus::cli {

/// On stderr: "meshbus: TEXT". It may quote what others wrote: control characters are escaped.
void complain(const std::string& text);

/// Complains that `what` could not write all of its output, unless nobody reads it any more, and
/// returns the exit code.
int output_lost(const std::string& what);

/// An error for people: its code, what happened and where. Without the code when that says only
/// that what was typed is wrong.
std::string error_words(const Error& error);

/// What a rank wrote, for a terminal: control characters other than the tab are escaped.
std::string shown(std::string_view line);
/// The same for several lines.
std::string shown_lines(std::string_view lines);

/// Two lines: the text as far as it fits on a terminal, and below it a caret under the character at
/// the error's position. Nothing for an error without one.
std::string pointed_at(std::string_view text, const Error& error);

}  // namespace meshbus::cli
