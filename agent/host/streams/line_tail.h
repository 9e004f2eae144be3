#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/bytes.h"

namespace meshbus::host {

/// Keeps the last bytes of a stream, exact, with their offsets, and gives people the last lines.
/// Pure.
///
/// It keeps at most max_bytes and a quarter more, however long the lines are.
class LineTail {
 public:
  struct Limits {
    std::size_t lines = 100;  ///< How many lines text() has; 0: none.
    std::size_t max_bytes = 64 * 1024;
  };
  explicit LineTail(Limits limits) : limits_(limits) {}

  void append(Bytes bytes);
  /// Begins with an empty stream at that offset.
  void start_at(std::uint64_t offset);
  /// Goes on where `former` ends, with its bytes, which text() does not repeat.
  void continue_from(LineTail&& former);
  /// From now on it keeps so many bytes at most.
  void shrink(std::size_t max_bytes);

  std::uint64_t begin() const noexcept { return begin_; }
  std::uint64_t end() const noexcept { return begin_ + data_.size(); }
  /// What is kept from that offset on; empty at the end. `offset` below begin() counts as begin().
  /// Valid until the next change.
  Bytes from(std::uint64_t offset) const noexcept;
  /// Where the last `lines` lines begin, the unfinished one counted, as far as they are kept;
  /// `missing` is how many are not.
  std::uint64_t offset_of_last(std::uint64_t lines,
                               std::uint64_t* missing = nullptr) const noexcept;
  /// The last lines since continue_from(), newlines included, the unfinished one too. A line whose
  /// beginning is not kept is marked: "[N bytes cut]" and the rest.
  std::string text() const;

 private:
  void drop(std::size_t bytes);

  Limits limits_;
  std::string data_;
  std::uint64_t begin_ = 0;       // offset of data_
  std::uint64_t line_begin_ = 0;  // where the line begins in which begin_ lies
  std::uint64_t own_begin_ = 0;   // where the stream of a former tail ended
};

/// Where in `bytes` the last `lines` lines begin, the unfinished one counted. `missing`: how many
/// more there would have to be.
std::size_t find_last_lines(Bytes bytes, std::uint64_t lines, std::uint64_t& missing) noexcept;

}  // namespace meshbus::host
