#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/support/terminal_text.h"

namespace meshbus::cli {

/// Rows in columns that are as wide as their cells, two blanks apart. Control characters
/// are escaped: the cells may hold what programs and peers wrote. Pure.
class Table {
 public:
  enum class Side { left, right };
  struct Column {
    std::string title;
    Side side = Side::left;
    /// What colour a cell has, by its words; null: none.
    Colour (*colour_of)(std::string_view cell) = nullptr;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> cells);
  /// Every row behind `indent`, the titles first. Nothing pads the last column. `is_coloured`: for
  /// what has_colours().
  std::string text(std::string_view indent = {}, bool is_coloured = false) const;

 private:
  std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                   bool is_coloured) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace meshbus::cli
