#include "mesh/text.h"

#include <array>

namespace meshbus::text {
namespace {

constexpr std::uint32_t kNoCharacter = 0xFFFFFFFF;

/// The character at the front of `bytes` and its length, or kNoCharacter and 1.
struct Decoded {
  std::uint32_t character;
  std::size_t length;
};

Decoded decode(std::string_view bytes) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  std::size_t length = 0;
  std::uint32_t character = 0;
  std::uint32_t smallest = 0;  // below it the form is overlong
  if (first >= 0xC2 && first < 0xE0) {
    length = 2, character = first & 0x1FU, smallest = 0x80;
  } else if (first >= 0xE0 && first < 0xF0) {
    length = 3, character = first & 0x0FU, smallest = 0x800;
  } else if (first >= 0xF0 && first < 0xF5) {
    length = 4, character = first & 0x07U, smallest = 0x10000;
  } else {
    return {kNoCharacter, 1};
  }
  if (bytes.size() < length) return {kNoCharacter, 1};
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {kNoCharacter, 1};
    character = character << 6 | (byte(i) & 0x3FU);
  }
  const bool surrogate = character >= 0xD800 && character < 0xE000;
  if (character < smallest || character > 0x10FFFF || surrogate) return {kNoCharacter, 1};
  return {character, length};
}

void append_utf8(std::string& out, std::uint32_t character) {
  const auto put = [&](std::uint32_t byte) {
    out += static_cast<char>(static_cast<std::uint8_t>(byte));
  };
  if (character < 0x80) {
    put(character);
  } else if (character < 0x800) {
    put(0xC0 | character >> 6), put(0x80 | (character & 0x3F));
  } else if (character < 0x10000) {
    put(0xE0 | character >> 12), put(0x80 | (character >> 6 & 0x3F)),
        put(0x80 | (character & 0x3F));
  } else {
    put(0xF0 | character >> 18), put(0x80 | (character >> 12 & 0x3F)),
        put(0x80 | (character >> 6 & 0x3F)), put(0x80 | (character & 0x3F));
  }
}

std::string hex(std::uint32_t number) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  do {
    out.insert(out.begin(), digits[number & 0xF]);
    number >>= 4;
  } while (number != 0);
  return out;
}

/// One character of a text; a `quote` and a backslash in it are escaped, without a quote they stand
/// as they are.
void append_escaped(std::string& out, std::string_view bytes, std::uint32_t character, char quote) {
  // C0 and C1 controls, and what reorders a line on a terminal, would make an error or a log line
  // lie.
  const bool hidden = character < 0x20 || (character >= 0x7F && character < 0xA0) ||
                      (character >= 0x200E && character <= 0x200F) ||
                      (character >= 0x2028 && character <= 0x202E) ||
                      (character >= 0x2066 && character <= 0x2069) || character == 0xFEFF;
  if (character == kNoCharacter) {
    out += "\xEF\xBF\xBD";
  } else if (quote != '\0' &&
             (character == static_cast<std::uint8_t>(quote) || character == '\\')) {
    out += '\\', out += static_cast<char>(character);
  } else if (character == '\n') {
    out += "\\n";
  } else if (character == '\r') {
    out += "\\r";
  } else if (character == '\t') {
    out += "\\t";
  } else if (hidden) {
    out += "\\u{" + hex(character) + "}";
  } else {
    out += bytes;
  }
}

void append_all_escaped(std::string& out, std::string_view text, char quote) {
  while (!text.empty()) {
    const Decoded next = decode(text);
    append_escaped(out, text.substr(0, next.length), next.character, quote);
    text.remove_prefix(next.length);
  }
}

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

int hex_digit(char c) noexcept {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

bool is_utf8(std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const Decoded next = decode(bytes);
    if (next.character == kNoCharacter) return false;
    bytes.remove_prefix(next.length);
  }
  return true;
}

bool is_identifier_start(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_identifier_part(char c) noexcept {
  return is_identifier_start(c) || is_digit(c);
}

bool is_identifier(std::string_view text) noexcept {
  if (text.empty() || !is_identifier_start(text.front())) return false;
  for (const char c : text) {
    if (!is_identifier_part(c)) return false;
  }
  return true;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  append_all_escaped(out, text, '"');
  out += '"';
  return out;
}

std::string visible(std::string_view text) {
  std::string out;
  append_all_escaped(out, text, '\0');
  return out;
}

std::size_t num_characters(std::string_view text) noexcept {
  std::size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(decode(text).length);
  return count;
}

void append_label(std::string& out, std::string_view label) {
  if (is_identifier(label)) {
    out += label;
  } else {
    out += quoted(label);
  }
}

Scanner Scanner::part(std::string_view kind, std::size_t begin, std::size_t end) const noexcept {
  Scanner scanner(kind, text_);
  scanner.position_ = begin;
  scanner.end_ = end;
  return scanner;
}

void Scanner::skip_spaces() noexcept {
  while (!at_end() && (peek() == ' ' || (peek() >= '\t' && peek() <= '\r'))) ++position_;
}

bool Scanner::accept(char c) noexcept {
  if (at_end() || text_[position_] != c) return false;
  ++position_;
  return true;
}

bool Scanner::accept(std::string_view word) noexcept {
  if (!rest().starts_with(word)) return false;
  position_ += word.size();
  return true;
}

Result<void> Scanner::expect(char c) {
  if (accept(c)) return {};
  return unexpected(std::string{'\'', c, '\''});
}

Result<void> Scanner::expect_end(std::string_view expected) {
  if (at_end()) return {};
  return unexpected(expected);
}

Result<std::uint64_t> Scanner::number(std::string_view expected, std::uint64_t maximum) {
  const std::size_t begin = position_;
  std::uint64_t value = 0;
  bool fits = true;
  for (; !at_end() && is_digit(peek()); ++position_) {
    const auto digit = static_cast<std::uint64_t>(peek() - '0');
    fits = fits && value <= maximum / 10 && value * 10 <= maximum - digit && digit <= maximum;
    if (fits) value = value * 10 + digit;
  }
  if (position_ == begin) return unexpected(expected);
  if (!fits) {
    std::string digits(text_.substr(begin, position_ - begin));
    if (digits.size() > 40) digits = digits.substr(0, 40) + "...";
    position_ = begin;
    return problem_at(begin, "expected " + std::string(expected) + " of at most " +
                                 std::to_string(maximum) + ", found " + digits);
  }
  return value;
}

Result<std::string> Scanner::label() {
  const std::size_t begin = position_;
  if (peek() == '"') {
    Result<std::string> label = quoted_label();
    if (label && label->empty()) return problem_at(begin, "expected a label, found an empty one");
    return label;
  }
  if (at_end() || !is_identifier_start(peek()))
    return unexpected("a label (a letter, '_' or a quoted text)");
  while (!at_end() && is_identifier_part(peek())) ++position_;
  return std::string(text_.substr(begin, position_ - begin));
}

Result<std::string> Scanner::quoted_label() {
  const std::size_t begin = position_;
  ++position_;
  std::string out;
  for (;;) {
    if (at_end()) return unexpected("'\"' to end the label that began at " + std::to_string(begin));
    if (accept('"')) return out;
    if (accept('\\')) {
      if (Result<void> done = escape(out); !done) return fail(std::move(done).error());
      continue;
    }
    const Decoded next = decode(rest());
    if (next.character == kNoCharacter) return unexpected("UTF-8");
    out += rest().substr(0, next.length);
    position_ += next.length;
  }
}

Result<void> Scanner::escape(std::string& out) {
  constexpr std::array<std::pair<char, char>, 5> simple = {
      {{'"', '"'}, {'\\', '\\'}, {'n', '\n'}, {'r', '\r'}, {'t', '\t'}}};
  for (const auto& [letter, character] : simple) {
    if (accept(letter)) {
      out += character;
      return {};
    }
  }
  if (!accept('u')) return unexpected("one of \" \\ n r t u after '\\'");
  if (Result<void> open = expect('{'); !open) return open;
  const std::size_t begin = position_;
  std::uint32_t character = 0;
  for (; !at_end() && hex_digit(peek()) >= 0; ++position_) {
    if (position_ - begin == 6) return unexpected("'}' after at most 6 hexadecimal digits");
    character = character << 4 | static_cast<std::uint32_t>(hex_digit(peek()));
  }
  if (position_ == begin) return unexpected("a hexadecimal digit");
  if (character > 0x10FFFF || (character >= 0xD800 && character < 0xE000)) {
    return problem_at(begin, "expected the number of a Unicode character, found " + hex(character));
  }
  if (Result<void> close = expect('}'); !close) return close;
  append_utf8(out, character);
  return {};
}

std::string Scanner::found_at(std::size_t position) const {
  if (position >= text_.size()) return "the end";
  const std::string_view rest = text_.substr(
      position);  // a part that ends too early: what people see there is what follows it
  const Decoded next = decode(rest);
  if (next.character == kNoCharacter) return "byte 0x" + hex(static_cast<std::uint8_t>(rest[0]));
  std::string out = "'";
  append_escaped(out, rest.substr(0, next.length), next.character, '\'');
  return out + "'";
}

tl::unexpected<Error> Scanner::unexpected_at(std::size_t position,
                                             std::string_view expected) const {
  return problem_at(position,
                    "expected " + std::string(expected) + ", found " + found_at(position));
}

tl::unexpected<Error> Scanner::unexpected_as(std::string_view variant,
                                             std::string_view expected) const {
  return problem_at(position_, std::string(variant) + ": expected " + std::string(expected) +
                                   ", found " + found_at(position_));
}

tl::unexpected<Error> Scanner::problem_at(std::size_t position, std::string_view problem) const {
  const std::string detail =
      std::string(kind_) + ": at " + std::to_string(position) + ": " + std::string(problem);
  return fail(Error(ErrorCode::parse_error, detail).at(position));
}

}  // namespace meshbus::text
