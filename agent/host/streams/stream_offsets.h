#pragma once

#include <cstdint>

namespace meshbus::host {

/// How far one output stream of a rank is, in bytes since the birth of its first incarnation. With
/// what the OutputSpool keeps of it, another agent goes on from here: OutputReader::take_over.
struct StreamOffsets {
  std::uint64_t read = 0;  ///< Taken out of the pipe.
  std::uint64_t file =
      0;  ///< Where the log file begins that is being written, plus 1; 0 = there is none.
  bool ended = false;  ///< Nothing more will be read.
};

}  // namespace meshbus::host
