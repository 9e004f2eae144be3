#include "cli/support/terminal_text.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "cli/support/text_error.h"

namespace meshbus::cli {
namespace {

constexpr std::string_view kEnd = "\x1b[0m";

/// How many bytes of a text are a sequence that sets colours (SGR), at its beginning.
std::size_t length_of_colour(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const auto end = text.find_first_not_of("0123456789;:", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

}  // namespace

bool has_colours(int fd) {
  const auto* const unwanted = std::getenv("NO_COLOR");
  const auto* const terminal = std::getenv("TERM");
  return ::isatty(fd) == 1 && (unwanted == nullptr || *unwanted == '\0') && terminal != nullptr &&
         *terminal != '\0' && std::string_view(terminal) != "dumb";
}

std::string in_colour(Colour colour, std::string_view text) {
  constexpr std::array<std::string_view, 8> codes = {
      "", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[34m", "\x1b[35m", "\x1b[36m", "\x1b[90m"};
  if (colour == Colour::none) return std::string(text);
  std::string coloured(codes.at(static_cast<std::size_t>(colour)));
  coloured += text;
  return coloured += kEnd;
}

Colour colour_of_rank(std::uint64_t rank) {
  constexpr std::array colours = {Colour::cyan, Colour::magenta, Colour::green, Colour::blue,
                                  Colour::yellow};
  return colours.at(rank % colours.size());
}

Colour colour_of_state(std::string_view word) {
  if (word == "Running" || word == "running" || word == "ready") return Colour::green;
  if (word == "Failed" || word == "failed" || word == "killed" || word == "Timeout")
    return Colour::red;
  if (word == "Stopped" || word == "stopped") return Colour::grey;
  return Colour::yellow;
}

std::string own_lines_in_colour(std::string_view lines) {
  constexpr std::string_view name = "meshbus:";
  std::string text;
  while (!lines.empty()) {
    const auto end = std::min(lines.size(), lines.find('\n'));
    auto line = lines.substr(0, end);
    if (line.starts_with(name)) {
      line.remove_prefix(name.size());
      text += in_colour(Colour::grey, name);
    }
    text += in_colour(line.starts_with(" first failure:") ? Colour::red : Colour::none, line);
    lines.remove_prefix(end);
    if (!lines.empty()) text += '\n', lines.remove_prefix(1);
  }
  return text;
}

std::string for_terminal(std::string_view line) {
  const auto last = line.find_last_not_of('\r');
  line = line.substr(0, last == std::string_view::npos ? 0 : last + 1);
  if (const auto at = line.rfind('\r'); at != std::string_view::npos) line.remove_prefix(at + 1);
  std::string text;
  bool is_coloured = false;
  while (!line.empty()) {
    // A colour begins with ESC, which is no part of a character of several bytes.
    std::size_t colour = length_of_colour(line), end = colour;
    if (colour == 0) {
      end = 1;
      while (end < line.size() && (line[end] != '\x1b' || length_of_colour(line.substr(end)) == 0))
        ++end;
      text += shown(line.substr(0, end));
    } else {
      is_coloured = true;
      text += line.substr(0, end);
    }
    line.remove_prefix(end);
  }
  return is_coloured ? text + std::string(kEnd) : text;
}

}  // namespace meshbus::cli
