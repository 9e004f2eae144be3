#pragma once

#include <cstdint>

namespace meshbus::host {

/// When a proc or a mesh has changed last, in numbers of the ChangeBook, which writes it.
struct ChangeStamp {
  std::uint64_t sum = 0;  ///< Stands for the state at the last look.
  std::uint64_t changed = 0;
  std::uint64_t err_end = 0;  ///< Bytes of stderr at the last look.
  bool is_err_last = false;   ///< The last line was written to stderr, as far as looks can tell.
};

}  // namespace meshbus::host
