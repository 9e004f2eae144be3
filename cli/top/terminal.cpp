#include "cli/top/terminal.h"

#define NCURSES_WIDECHAR 1
#define NCURSES_NOMACROS 1
#include <curses.h>

#include <langinfo.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "cli/top/top_keys.h"

namespace meshbus::cli {
namespace {

constexpr short kGoodPair = 1;
constexpr short kWarnPair = 2;
constexpr short kBadPair = 3;

/// What the user calls this terminal.
std::string terminal_name() {
  const char* const name = std::getenv("TERM");
  return name == nullptr || *name == '\0' ? "TERM is not set" : "TERM is " + std::string(name);
}

/// A terminal of another character set gets ASCII only.
std::string shown(const std::string& glyph, bool is_utf8) {
  if (is_utf8 || glyph.size() == 1) return glyph;
  return glyph.empty() ? " " : "?";
}

attr_t attributes_of(const Cell& cell, bool has_colors) {
  attr_t attributes = A_NORMAL;
  const auto color = [&](short pair) {
    return has_colors ? static_cast<attr_t>(COLOR_PAIR(pair)) : static_cast<attr_t>(A_NORMAL);
  };
  switch (cell.ink) {
    case Ink::plain: break;
    case Ink::dim: attributes = A_DIM; break;
    case Ink::bold: attributes = A_BOLD; break;
    case Ink::title: attributes = A_BOLD | A_UNDERLINE; break;
    case Ink::good: attributes = color(kGoodPair); break;
    case Ink::warn: attributes = A_BOLD | color(kWarnPair); break;
    case Ink::bad: attributes = A_BOLD | color(kBadPair); break;
  }
  return cell.is_selected ? attributes | A_REVERSE : attributes;
}

}  // namespace

Result<std::unique_ptr<Terminal>> Terminal::open() {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0)
    return fail(ErrorCode::refused,
                "top needs a terminal for its screen and keys; use --once, or --once --json");
  std::setlocale(LC_CTYPE, "");
  // A lone Escape is a key; what terminals send for other keys comes at once.
  ::set_escdelay(50);
  if (const char* const name = std::getenv("TERM");
      name == nullptr || *name == '\0' || ::newterm(nullptr, stdout, stdin) == nullptr)
    return fail(ErrorCode::refused,
                terminal_name() + ", which this machine does not know; use --once");
  if (::tigetstr("cup") == nullptr) {
    ::endwin();
    return fail(ErrorCode::refused, terminal_name() + ": it cannot place text; use --once");
  }
  ::cbreak();
  ::noecho();
  ::nonl();
  ::keypad(stdscr, TRUE);
  ::nodelay(stdscr, TRUE);
  ::curs_set(0);
  const char* const no_color = std::getenv("NO_COLOR");
  const bool has_colors =
      (no_color == nullptr || *no_color == '\0') && ::has_colors() && ::start_color() == OK;
  if (has_colors) {
    // The terminal's own background, be it dark or light; colours that both show.
    ::use_default_colors();
    ::init_pair(kGoodPair, COLOR_GREEN, -1);
    ::init_pair(kWarnPair, COLOR_MAGENTA, -1);
    ::init_pair(kBadPair, COLOR_RED, -1);
  }
  return std::unique_ptr<Terminal>(new Terminal(has_colors));
}

Terminal::Terminal(bool has_colors)
    : has_colors_(has_colors), is_utf8_(std::string_view(::nl_langinfo(CODESET)) == "UTF-8") {}

Terminal::~Terminal() {
  ::endwin();
}

std::size_t Terminal::columns() const {
  return static_cast<std::size_t>(std::max(0, ::getmaxx(stdscr)));
}

std::size_t Terminal::lines() const {
  return static_cast<std::size_t>(std::max(0, ::getmaxy(stdscr)));
}

void Terminal::draw(const Screen& screen) {
  for (std::size_t row = 0; row < screen.rows(); ++row) {
    const auto& cells = screen.line(row);
    ::move(static_cast<int>(row), 0);
    for (std::size_t at = 0; at < cells.size();) {
      auto end = at;
      std::string run;
      while (end < cells.size() && cells[end].ink == cells[at].ink &&
             cells[end].is_selected == cells[at].is_selected)
        run += shown(cells[end++].glyph, is_utf8_);
      ::attrset(static_cast<int>(attributes_of(cells[at], has_colors_)));
      ::addnstr(run.c_str(), static_cast<int>(run.size()));
      at = end;
    }
  }
  ::refresh();
}

std::optional<int> Terminal::take_key() {
  // By custom it draws the whole screen again, for when another program has written on it.
  constexpr int kControlL = 12;
  static const std::map<int, int> keys = {{KEY_UP, kKeyUp},
                                          {KEY_DOWN, kKeyDown},
                                          {KEY_LEFT, kKeyLeft},
                                          {KEY_RIGHT, kKeyRight},
                                          {KEY_PPAGE, kKeyPageUp},
                                          {KEY_NPAGE, kKeyPageDown},
                                          {KEY_HOME, kKeyHome},
                                          {KEY_END, kKeyEnd},
                                          {KEY_ENTER, kKeyEnter},
                                          {'\r', kKeyEnter},
                                          {'\n', kKeyEnter},
                                          {27, kKeyEscape},
                                          {KEY_BACKSPACE, kKeyBackspace},
                                          {127, kKeyBackspace},
                                          {8, kKeyBackspace}};
  const int key = ::getch();
  if (key == ERR) return std::nullopt;
  if (key == kControlL) {
    ::clearok(curscr, TRUE);
    return 0;
  }
  if (const auto found = keys.find(key); found != keys.end()) return found->second;
  return key >= 0x100 ? 0 : key;
}

}  // namespace meshbus::cli
