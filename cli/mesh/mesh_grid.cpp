#include "cli/mesh/mesh_grid.h"

#include <algorithm>
#include <ostream>
#include <string>

#include "mesh/text.h"

namespace meshbus::cli {
namespace {

/// `gpu=3`
std::string coordinate(const Region& region, std::size_t axis, std::uint64_t index) {
  std::string out;
  text::append_label(out, region.labels()[axis]);
  return out + "=" + std::to_string(index);
}

void print_padded(std::ostream& out, const std::string& text, std::size_t width,
                  bool to_the_right) {
  const std::string spaces(width - std::min(width, text::num_characters(text)), ' ');
  out << (to_the_right ? spaces : "") << text << (to_the_right ? "" : spaces);
}

/// One block: a region of one or two axes.
void print_block(std::ostream& out, const Region& block, std::size_t cell) {
  const std::size_t columns = block.num_dims() - 1;
  const std::uint64_t rows = columns == 0 ? 1 : block.sizes()[0];
  const std::size_t margin =
      columns == 0 ? 0 : text::num_characters(coordinate(block, 0, rows - 1)) + 2;
  print_padded(out, "", margin, false);
  for (std::uint64_t c = 0; c < block.sizes()[columns] && out; ++c) {
    out << (c == 0 ? "" : "  ");
    print_padded(out, coordinate(block, columns, c), cell, true);
  }
  out << "\n";
  for (std::uint64_t r = 0; r < rows && out; ++r) {
    if (columns != 0) print_padded(out, coordinate(block, 0, r), margin, false);
    for (std::uint64_t c = 0; c < block.sizes()[columns] && out; ++c) {
      out << (c == 0 ? "" : "  ");
      print_padded(out, std::to_string(*block.base_rank(r * block.sizes()[columns] + c)), cell,
                   true);
    }
    out << "\n";
  }
}

}  // namespace

void print_grid(std::ostream& out, const Region& region) {
  if (region.is_empty()) {
    out << "no ranks\n";
    return;
  }
  const std::uint64_t last = *region.base_rank(region.num_ranks() - 1);
  if (region.num_dims() == 0) {
    out << last << "\n";
    return;
  }
  const std::size_t last_axis = region.num_dims() - 1;
  const std::size_t cell =
      std::max(std::to_string(last).size(),
               text::num_characters(coordinate(region, last_axis, region.sizes()[last_axis] - 1)));
  const std::size_t outer = region.num_dims() < 2 ? 0 : region.num_dims() - 2;
  const auto blocks = region.group_by(region.labels()[outer]);
  for (std::uint64_t i = 0; i < blocks->size() && out; ++i) {
    const Region block = (*blocks)[i];
    if (outer > 0) {
      const Point point = *region.point(block.offset());
      out << (i == 0 ? "" : "\n");
      for (std::size_t axis = 0; axis < outer; ++axis)
        out << (axis == 0 ? "" : ",") << coordinate(region, axis, point.coordinates()[axis]);
      out << "\n";
    }
    print_block(out, block, cell);
  }
}

}  // namespace meshbus::cli
