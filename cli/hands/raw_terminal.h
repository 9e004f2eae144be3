#pragma once

#include <termios.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace meshbus::cli {

/// Our terminal, raw while the object lives: every key is a byte for somebody else.
class RawTerminal {
 public:
  /// Takes that of stdin.
  RawTerminal();
  ~RawTerminal() { restore(); }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  /// As it was before.
  void restore();

 private:
  termios before_{};
  bool is_raw_ = false;
};

/// Rows and columns of the terminal of stdin. Nothing: it has none.
std::optional<std::pair<std::uint16_t, std::uint16_t>> terminal_size();

}  // namespace meshbus::cli
