#pragma once

#include <string>
#include <string_view>

namespace meshbus::cli {

/// Puts a prefix in front of each whole line of a stream. Pure.
class LineBuffer {
 public:
  explicit LineBuffer(std::string prefix) : prefix_(std::move(prefix)) {}

  /// The whole lines, with prefixes. A line that is too long is cut.
  std::string add(std::string_view bytes);
  /// The stream is at its end: the last line, if it has no newline.
  std::string rest();

 private:
  static constexpr std::size_t kLongest = 64 * 1024;
  std::string prefix_;
  std::string partial_;
};

}  // namespace meshbus::cli
