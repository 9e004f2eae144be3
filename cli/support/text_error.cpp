#include "cli/support/text_error.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "cli/support/exit_codes.h"
#include "cli/support/terminal_text.h"
#include "mesh/text.h"

namespace meshbus::cli {
namespace {

constexpr std::size_t kMostBefore = 60;  // characters in front of the caret
constexpr std::size_t kMostAfter = 40;

bool continues(char c) noexcept {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80;
}

/// The last, or the first, `most` characters of UTF-8, and dots for what was cut off.
std::string end_of(const std::string& text, std::size_t most) {
  std::size_t at = text.size();
  for (; at > 0 && most > 0; --most) {
    do --at;
    while (at > 0 && continues(text[at]));
  }
  return (at > 0 ? "..." : "") + text.substr(at);
}

std::string begin_of(const std::string& text, std::size_t most) {
  std::size_t at = 0;
  for (; at < text.size() && most > 0; --most) {
    do ++at;
    while (at < text.size() && continues(text[at]));
  }
  return text.substr(0, at) + (at < text.size() ? "..." : "");
}

}  // namespace

void complain(const std::string& text) {
  const auto colour = has_colours(STDERR_FILENO) ? Colour::red : Colour::none;
  std::cerr << in_colour(colour, "meshbus:") << " " << shown_lines(text) << "\n";
}

int output_lost(const std::string& what) {
  pollfd output{STDOUT_FILENO, 0, 0};
  if (::poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0) return kBrokenPipe;
  complain(what + ": not all of the output could be written: is the disk full?");
  return kOwnFailure;
}

std::string error_words(const Error& error) {
  const bool is_mistake =
      error.code() == ErrorCode::configuration_error || error.code() == ErrorCode::parse_error;
  return is_mistake ? error.detail() : error.to_string();
}

std::string shown_lines(std::string_view lines) {
  std::string text;
  for (;;) {
    const auto end = lines.find('\n');
    text += shown(lines.substr(0, end));
    if (end == std::string_view::npos) return text;
    text += '\n';
    lines.remove_prefix(end + 1);
  }
}

std::string shown(std::string_view line) {
  std::string text;
  for (;;) {
    const auto tab = line.find('\t');
    text += text::visible(line.substr(0, tab));
    if (tab == std::string_view::npos) return text;
    text += '\t';
    line.remove_prefix(tab + 1);
  }
}

std::string pointed_at(std::string_view text, const Error& error) {
  if (!error.position()) return {};
  const std::size_t position = std::min(*error.position(), text.size());
  const std::string before = end_of(text::visible(text.substr(0, position)), kMostBefore);
  const std::string after = begin_of(text::visible(text.substr(position)), kMostAfter);
  return "  " + before + after + "\n  " + std::string(text::num_characters(before), ' ') + "^\n";
}

}  // namespace meshbus::cli
