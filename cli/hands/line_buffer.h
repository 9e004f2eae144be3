#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace meshbus::cli {

/// Makes something of each whole line of a stream, such as a prefix in front of it. Pure.
class LineBuffer {
 public:
  /// Makes of a line, without its newline, what is written for it.
  using Format = std::function<std::string(std::string_view line)>;
  explicit LineBuffer(Format format) : format_(std::move(format)) {}
  /// A prefix; without one the stream is passed on as it comes.
  explicit LineBuffer(const std::string& prefix);

  /// What is written for the whole lines. A line that is too long is cut.
  std::string add(std::string_view bytes);
  /// The stream is at its end: the last line, if it has no newline.
  std::string rest();

 private:
  static constexpr std::size_t kLongest = 64 * 1024;
  Format format_;
  std::string partial_;
};

}  // namespace meshbus::cli
