#include "cli/hands/shown_stream.h"

#include <utility>

#include "cli/support/text_error.h"

namespace meshbus::cli {
namespace {

/// How many bytes the UTF-8 character has that begins so; 0: none begins so.
std::size_t length_of(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte >= 0xf0) return byte < 0xf8 ? 4 : 0;
  if (byte >= 0xe0) return 3;
  return byte >= 0xc0 ? 2 : 0;
}

/// How many bytes at the end begin a character that is not complete.
std::size_t incomplete_end(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const char byte = text[text.size() - back];
    if ((static_cast<unsigned char>(byte) & 0xc0U) == 0x80U) continue;
    return length_of(byte) > back ? back : 0;
  }
  return 0;
}

}  // namespace

std::string ShownStream::add(std::string_view piece) {
  std::string text = std::exchange(waiting_, {}) + std::string(piece);
  waiting_ = text.substr(text.size() - incomplete_end(text));
  text.resize(text.size() - waiting_.size());
  return shown_lines(text);
}

std::string ShownStream::rest() {
  return shown_lines(std::exchange(waiting_, {}));
}

}  // namespace meshbus::cli
