#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meshbus::cli {

/// How a cell looks. What that means on a terminal is decided where it is drawn.
enum class Ink : std::uint8_t { plain, dim, bold, title, good, warn, bad };

/// One place on a screen.
struct Cell {
  /// One character as UTF-8; empty behind a character that takes two places.
  std::string glyph = " ";
  Ink ink = Ink::plain;
  bool is_selected = false;
};

/// A screen of cells, drawn in memory. What is written is made visible: control characters are
/// escaped, characters that combine are left out, so that nothing a rank writes moves another cell.
class Screen {
 public:
  Screen(std::size_t columns, std::size_t rows)
      : columns_(columns), lines_(rows, std::vector<Cell>(columns)) {}

  std::size_t columns() const noexcept { return columns_; }
  std::size_t rows() const noexcept { return lines_.size(); }
  const std::vector<Cell>& line(std::size_t row) const { return lines_[row]; }

  /// Writes from that column on, at most `width` places; cuts what is longer. Returns how many
  /// places it took. Outside of the screen nothing is written.
  std::size_t put(std::size_t row, std::size_t column, std::string_view text, Ink ink = Ink::plain,
                  std::size_t width = SIZE_MAX);
  /// The same, ending at `end` (exclusive).
  void put_right(std::size_t row, std::size_t end, std::string_view text, Ink ink,
                 std::size_t width);
  void select(std::size_t row);
  /// Gives a whole line another ink.
  void paint(std::size_t row, Ink ink);
  /// The lines without inks, and without blanks at their ends.
  std::string text() const;

 private:
  std::size_t columns_;
  std::vector<std::vector<Cell>> lines_;
};

/// How many places a text takes when Screen::put() writes it.
std::size_t places_of(std::string_view text);
/// What Screen::put() would write of a text behind so many places.
std::string text_behind(std::string_view text, std::size_t places);

}  // namespace meshbus::cli
