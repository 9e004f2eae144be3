#include "cli/support/wrapped_text.h"

#include <algorithm>

namespace meshbus::cli {
namespace {

/// Lines that are being filled with words.
class Filler {
 public:
  Filler(std::size_t width, std::size_t indent) : width_(width), indent_(indent), column_(indent) {}

  void words(std::string_view line) {
    while (!line.empty()) {
      const auto end = std::min(line.find(' '), line.size());
      if (end > 0) word(line.substr(0, end));
      line.remove_prefix(std::min(end + 1, line.size()));
    }
  }
  /// A line that stays as it is.
  void line(std::string_view text) {
    if (state_ != State::nothing) next_line();
    text_ += text;
    state_ = State::closed;
  }
  std::string take() { return std::move(text_); }

 private:
  void word(std::string_view word) {
    if (state_ == State::closed || (state_ == State::words && column_ + 1 + word.size() > width_))
      next_line();
    if (state_ == State::words) {
      text_ += ' ';
      ++column_;
    }
    text_ += word;
    column_ += word.size();
    state_ = State::words;
  }
  void next_line() {
    text_ += '\n';
    text_.append(indent_, ' ');
    column_ = indent_;
    state_ = State::nothing;
  }

  std::size_t width_;
  std::size_t indent_;
  std::size_t column_;
  std::string text_;
  /// What the last line has.
  enum class State { nothing, words, closed } state_ = State::nothing;
};

}  // namespace

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  Filler filler(width, indent);
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, end);
    if (line.empty() || line.front() == ' ') {
      filler.line(line);
    } else {
      filler.words(line);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return filler.take();
}

}  // namespace meshbus::cli
