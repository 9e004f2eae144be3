#pragma once

#include <cstddef>
#include <deque>
#include <string>

#include "common/bytes.h"

namespace meshbus::host {

/// The last lines that came through a stream: exact bytes, newlines included, the unfinished last line too. Pure.
///
/// Bounded in lines and in bytes: a line longer than max_line is cut there and marked "[N bytes cut]" in front of its newline; when all
/// lines together pass max_bytes, the oldest go.
class LineTail {
 public:
  struct Limits {
    std::size_t lines = 100;
    std::size_t max_line = 64 * 1024;
    std::size_t max_bytes = 128 * 1024;
  };
  explicit LineTail(Limits limits) : limits_(limits) {}

  void append(Bytes bytes);
  /// What is kept, in order.
  std::string text() const;

 private:
  void skip_flood(Bytes& bytes);
  void append_to_line(Bytes bytes);
  void finish_line();
  void trim();
  static std::string mark(std::size_t cut) { return "[" + std::to_string(cut) + " bytes cut]"; }

  Limits limits_;
  std::deque<std::string> lines_;
  std::size_t bytes_ = 0;  // of lines_
  std::string open_;       // the unfinished line
  std::size_t cut_ = 0;    // bytes of the unfinished line that are not kept
};

}  // namespace meshbus::host
