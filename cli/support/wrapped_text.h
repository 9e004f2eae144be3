#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace meshbus::cli {

/// Breaks a text that begins in column `indent` into lines of at most `width` columns; every line
/// but the first begins with `indent` blanks. A word that is longer than a line stays whole. Lines
/// of the text that begin with a blank stay as they are, and so do empty ones; other lines are
/// joined and broken anew. Pure.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent = 0);

}  // namespace meshbus::cli
