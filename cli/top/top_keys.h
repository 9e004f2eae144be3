#pragma once

#include <cstddef>

#include "cli/top/top_state.h"

namespace meshbus::cli {

/// Keys that are no characters.
enum SpecialKey : int {
  kKeyUp = 0x110000,
  kKeyDown,
  kKeyLeft,
  kKeyRight,
  kKeyPageUp,
  kKeyPageDown,
  kKeyHome,
  kKeyEnd,
  kKeyEnter,
  kKeyEscape,
  kKeyBackspace,
};

/// Lines that are no rows: the head and the foot.
inline constexpr std::size_t kFrameLines = 5;

/// What a key does. `key`: a character, or a SpecialKey; `lines`: of the window. Pure.
TopOrder on_key(TopState& state, int key, std::size_t lines);

}  // namespace meshbus::cli
