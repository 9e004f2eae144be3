#pragma once

#include <cstdint>

namespace meshbus::host {

/// Where one output stream of a proc stands, in bytes since its birth. This, and the bytes from `taken` to `read`, is all that another
/// agent needs to go on with it: LineTail::start_at(read), OutputRelay::restore(taken) and add() of those bytes, LogFile::resume(filed).
struct StreamOffsets {
  std::uint64_t read = 0;   ///< Taken out of the pipe.
  std::uint64_t taken = 0;  ///< Written by the owner, as it has said; stays behind when there is none.
  std::uint64_t filed = 0;  ///< In log files; stays behind when there are none.
  bool ended = false;       ///< Nothing more will be read.
};

}  // namespace meshbus::host
