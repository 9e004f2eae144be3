#pragma once

#include <cstddef>

#include "cli/top/screen.h"
#include "cli/top/top_state.h"

namespace meshbus::cli {

/// The smallest window that shows anything.
inline constexpr std::size_t kLeastColumns = 60;
inline constexpr std::size_t kLeastLines = 10;

/// The screen of a window of that size. Pure, but for TopState::first, which follows the row that
/// is selected.
Screen render(TopState& state, std::size_t columns, std::size_t lines);

/// The present state as a table, for `--once`.
std::string table_of(const SiteView& view);

}  // namespace meshbus::cli
