#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "meshbus/logs.h"

namespace meshbus::cli {

/// One line that a rank wrote, as it is shown.
struct ShownLine {
  std::uint64_t rank = 0;
  Stream stream = Stream::out;
  std::uint64_t offset = 0;  ///< The offset of its first byte.
  std::uint64_t missed = 0;  ///< Bytes of it, or in front of it, that never came.
  /// Without its newline; with "[N bytes cut]" at its end when it was longer than kMaxLine, and "[N
  /// bytes missed]" where some are missing.
  std::string text;
};

/// Makes lines out of pieces of streams. Pure.
class LineAssembler {
 public:
  static constexpr std::size_t kMaxLine = 64 * 1024;
  using Sink = std::function<void(ShownLine)>;
  explicit LineAssembler(Sink sink) : sink_(std::move(sink)) {}

  void add(const LogPiece& piece);
  /// What was begun and not ended counts as a line.
  void finish();

 private:
  struct Open {
    ShownLine line;
    std::uint64_t next = 0;  // offset
    std::uint64_t kept = 0;
    std::uint64_t cut = 0;
    bool is_begun = false;
  };
  void append(Open& open, std::string_view bytes);
  void end(Open& open);

  Sink sink_;
  std::map<std::pair<std::uint64_t, Stream>, Open> open_;
};

}  // namespace meshbus::cli
