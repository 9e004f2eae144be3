#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "meshbus/result.h"

/// What the parsers and printers of meshbus's text forms share (spec 1.6, 1.7, 2). Not a public
/// header.
namespace meshbus::text {

/// Whether the bytes are UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view bytes) noexcept;

/// Whether it matches [A-Za-z_][A-Za-z0-9_]*: what may stand bare as a label or a name.
bool is_identifier(std::string_view text) noexcept;

/// Whether the byte may start, or go on with, an identifier. ASCII only, whatever the locale.
bool is_identifier_start(char c) noexcept;
bool is_identifier_part(char c) noexcept;

/// In double quotes, with \" \\ \n \r \t and \u{hex} for the other control characters. Bytes that
/// are not UTF-8 come out as U+FFFD.
std::string quoted(std::string_view text);

/// As it may be shown on a terminal: control characters and what is not UTF-8 as in quoted(), all
/// else as it is.
std::string visible(std::string_view text);

/// How many characters; a byte that is not UTF-8 counts as one.
std::size_t num_characters(std::string_view text) noexcept;

/// Appends a label as spec 1.6 prints it: bare when it is an identifier, else quoted.
void append_label(std::string& out, std::string_view label);

/// Reads a text from left to right and makes errors that say where. Positions are byte offsets from
/// 0 in the *whole* text, also for a part of it, so that an error deep inside a long reference
/// still points at the right column. Holds views only: the text must outlive it.
class Scanner {
 public:
  /// `kind` says what is being read ("region"); it leads each error.
  Scanner(std::string_view kind, std::string_view text) noexcept
      : kind_(kind), text_(text), end_(text.size()) {}

  /// Bytes [begin, end) of the same text, as a text of another kind.
  Scanner part(std::string_view kind, std::size_t begin, std::size_t end) const noexcept;

  std::size_t position() const noexcept { return position_; }
  std::size_t end() const noexcept { return end_; }
  bool at_end() const noexcept { return position_ == end_; }
  /// The next byte, or NUL at the end.
  char peek() const noexcept { return at_end() ? '\0' : text_[position_]; }
  /// What is left to read.
  std::string_view rest() const noexcept { return text_.substr(position_, end_ - position_); }

  void advance(std::size_t bytes) noexcept {
    position_ += bytes < end_ - position_ ? bytes : end_ - position_;
  }
  /// Skips ASCII white space.
  void skip_spaces() noexcept;
  /// Takes the byte, or the word, if it comes next.
  bool accept(char c) noexcept;
  bool accept(std::string_view word) noexcept;
  /// Takes the byte or fails with "expected ..., found ...".
  Result<void> expect(char c);
  /// Fails unless everything was read. `expected` says what else could have gone on here ("',' or
  /// the end").
  Result<void> expect_end(std::string_view expected);
  /// A decimal number, leading zeros allowed, of at most `maximum`. `expected` names it in errors:
  /// "a size".
  Result<std::uint64_t> number(std::string_view expected,
                               std::uint64_t maximum = std::numeric_limits<std::uint64_t>::max());
  /// A label: an identifier, or quoted (spec 1.6). Never empty.
  Result<std::string> label();

  /// parse_error: "region: at 5: expected '=', found ','".
  tl::unexpected<Error> unexpected(std::string_view expected) const {
    return unexpected_at(position_, expected);
  }
  tl::unexpected<Error> unexpected_at(std::size_t position, std::string_view expected) const;
  /// parse_error: "name: at 5: InvalidName: expected ..., found ...".
  tl::unexpected<Error> unexpected_as(std::string_view variant, std::string_view expected) const;
  /// parse_error: "region: at 5: <problem>".
  tl::unexpected<Error> problem_at(std::size_t position, std::string_view problem) const;

 private:
  std::string found_at(std::size_t position) const;
  Result<std::string> quoted_label();
  Result<void> escape(std::string& out);

  std::string_view kind_;
  std::string_view text_;
  std::size_t position_ = 0;
  std::size_t end_;
};

}  // namespace meshbus::text
