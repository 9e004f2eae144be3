#include "cli/top/screen.h"

#include <algorithm>
#include <array>
#include <utility>

#include "mesh/text.h"

namespace meshbus::cli {
namespace {

using Range = std::pair<std::uint32_t, std::uint32_t>;
/// Characters that take no place of their own (Unicode 15: marks, joiners, selectors).
constexpr std::array<Range, 10> kNoPlace{{{0x0300, 0x036F},
                                          {0x0483, 0x0489},
                                          {0x0591, 0x05BD},
                                          {0x064B, 0x065F},
                                          {0x1AB0, 0x1AFF},
                                          {0x1DC0, 0x1DFF},
                                          {0x200B, 0x200F},
                                          {0x20D0, 0x20FF},
                                          {0xFE00, 0xFE0F},
                                          {0xE0000, 0xE0FFF}}};
/// Characters that take two (East Asian wide, and pictures).
constexpr std::array<Range, 9> kTwoPlaces{{{0x1100, 0x115F},
                                           {0x2E80, 0xA4CF},
                                           {0xAC00, 0xD7A3},
                                           {0xF900, 0xFAFF},
                                           {0xFE30, 0xFE6F},
                                           {0xFF00, 0xFF60},
                                           {0xFFE0, 0xFFE6},
                                           {0x1F300, 0x1FAFF},
                                           {0x20000, 0x3FFFD}}};

template <std::size_t Size>
bool is_in(const std::array<Range, Size>& ranges, std::uint32_t character) {
  return std::any_of(ranges.begin(), ranges.end(), [character](const Range& range) {
    return character >= range.first && character <= range.second;
  });
}

std::size_t width_of(std::uint32_t character) {
  if (character < 0x300) return 1;
  if (is_in(kNoPlace, character)) return 0;
  return is_in(kTwoPlaces, character) ? 2 : 1;
}

/// The first character of UTF-8 text, which it takes off.
std::pair<std::string_view, std::uint32_t> take_character(std::string_view& text) {
  const auto first = static_cast<std::uint8_t>(text.front());
  const std::size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  const auto bytes = text.substr(0, length);
  std::uint32_t character = length == 1 ? first : first & (0xFFU >> (length + 1));
  for (const char byte : bytes.substr(1))
    character = character << 6 | (static_cast<std::uint8_t>(byte) & 0x3FU);
  text.remove_prefix(bytes.size());
  return {bytes, character};
}

}  // namespace

std::size_t places_of(std::string_view text) {
  const auto shown = text::visible(text);
  std::size_t places = 0;
  for (std::string_view rest = shown; !rest.empty();)
    places += width_of(take_character(rest).second);
  return places;
}

std::string text_behind(std::string_view text, std::size_t places) {
  const auto shown = text::visible(text);
  std::string_view rest = shown;
  for (std::size_t at = 0; at < places && !rest.empty();)
    at += width_of(take_character(rest).second);
  return std::string(rest);
}

std::size_t Screen::put(std::size_t row, std::size_t column, std::string_view text, Ink ink,
                        std::size_t width) {
  if (row >= lines_.size() || column >= columns_) return 0;
  const auto end = column + std::min(width, columns_ - column);
  // A place takes four bytes at most, and an escape is longer than what it stands for.
  const auto shown = text::visible(text.substr(0, 4 * (end - column) + 16));
  auto at = column;
  for (std::string_view rest = shown; !rest.empty();) {
    const auto [bytes, character] = take_character(rest);
    const auto places = width_of(character);
    if (places == 0) continue;
    if (at + places > end) break;
    lines_[row][at].glyph = bytes;
    lines_[row][at].ink = ink;
    if (places == 2) {
      lines_[row][at + 1].glyph.clear();
      lines_[row][at + 1].ink = ink;
    }
    at += places;
  }
  return at - column;
}

void Screen::put_right(std::size_t row, std::size_t end, std::string_view text, Ink ink,
                       std::size_t width) {
  const auto places = std::min(places_of(text), width);
  if (end >= places) put(row, end - places, text, ink, places);
}

void Screen::select(std::size_t row) {
  if (row >= lines_.size()) return;
  for (auto& cell : lines_[row]) cell.is_selected = true;
}

void Screen::paint(std::size_t row, Ink ink) {
  if (row >= lines_.size()) return;
  for (auto& cell : lines_[row]) cell.ink = ink;
}

std::string Screen::text() const {
  std::string text;
  for (const auto& line : lines_) {
    std::string all;
    for (const auto& cell : line) all += cell.glyph;
    all.erase(all.find_last_not_of(' ') + 1);
    text += all + "\n";
  }
  return text;
}

}  // namespace meshbus::cli
