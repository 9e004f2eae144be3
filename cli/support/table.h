#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace meshbus::cli {

/// Rows in columns that are as wide as what stands in them, two blanks apart. Control characters
/// are escaped: the cells may hold what programs and peers wrote. Pure.
class Table {
 public:
  enum class Side { left, right };
  struct Column {
    std::string title;
    Side side = Side::left;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> cells);
  /// Every row behind `indent`, the titles first. Nothing pads the last column.
  std::string text(std::string_view indent = {}) const;

 private:
  std::string line(const std::vector<std::string>& cells,
                   const std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace meshbus::cli
