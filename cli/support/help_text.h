#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

/// What `--help` of a command prints, in lines of at most `width` columns.
std::string help_text(const CLI::App& app, std::size_t width);

/// "meshbus stop [OPTIONS] RANKS"
std::string usage_text(const CLI::App& app);

/// A part of the help: what stands under "Arguments", "Options", "Commands" and other titles.
struct HelpGroup {
  struct Entry {
    std::string name;  ///< "--grace DURATION"
    std::string meaning;
  };
  std::string title;
  std::vector<Entry> entries;
};
/// Those that have entries, in the order in which help_text() prints them.
std::vector<HelpGroup> help_groups(const CLI::App& app);

/// The columns of the terminal that stdout is, or COLUMNS; 100 where neither is known.
std::size_t help_width();

}  // namespace meshbus::cli
