#include "cli/support/table.h"

#include <algorithm>
#include <utility>

#include "mesh/text.h"

namespace meshbus::cli {

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (auto& cell : cells) cell = text::visible(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::line(const std::vector<std::string>& cells,
                        const std::vector<std::size_t>& widths, bool is_coloured) const {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string pad(widths[i] - std::min(widths[i], text::num_characters(cells[i])), ' ');
    if (i > 0) line += "  ";
    const auto colour_of = is_coloured && !cells[i].empty() ? columns_[i].colour_of : nullptr;
    const auto cell =
        in_colour(colour_of == nullptr ? Colour::none : colour_of(cells[i]), cells[i]);
    line += columns_[i].side == Side::right ? pad + cell : cell + pad;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string Table::text(std::string_view indent, bool is_coloured) const {
  std::vector<std::string> titles;
  std::vector<std::size_t> widths;
  for (const auto& column : columns_) {
    titles.push_back(column.title);
    widths.push_back(column.title.size());
  }
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], text::num_characters(row[i]));
  }
  std::string text;
  const bool has_titles =
      std::any_of(titles.begin(), titles.end(), [](const auto& title) { return !title.empty(); });
  if (has_titles) text += std::string(indent) + line(titles, widths, false) + "\n";
  for (const auto& row : rows_) text += std::string(indent) + line(row, widths, is_coloured) + "\n";
  return text;
}

}  // namespace meshbus::cli
