#include "cli/hands/raw_terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace meshbus::cli {

RawTerminal::RawTerminal() {
  if (::tcgetattr(STDIN_FILENO, &before_) != 0) return;
  termios raw = before_;
  ::cfmakeraw(&raw);
  is_raw_ = ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

void RawTerminal::restore() {
  if (is_raw_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  is_raw_ = false;
}

std::optional<std::pair<std::uint16_t, std::uint16_t>> terminal_size() {
  winsize size{};
  if (::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return std::nullopt;
  return std::pair{size.ws_row, size.ws_col};
}

}  // namespace meshbus::cli
