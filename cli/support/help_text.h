#pragma once

#include <cstddef>
#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

/// What `--help` of a command prints, in lines of at most `width` columns.
std::string help_text(const CLI::App& app, std::size_t width);

/// The columns of the terminal that stdout is, or COLUMNS; 100 where neither is known.
std::size_t help_width();

}  // namespace meshbus::cli
