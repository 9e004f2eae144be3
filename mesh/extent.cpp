#include "meshbus/extent.h"

#include <algorithm>
#include <ostream>

#include "mesh/axes.h"
#include "meshbus/point.h"

namespace meshbus {
namespace {

std::optional<axes::Problem> find_problem(const std::vector<std::string>& labels,
                                          const std::vector<std::uint64_t>& sizes) {
  if (std::optional<axes::Problem> problem = axes::find_label_problem(labels)) return problem;
  return axes::find_size_problem(labels, sizes);
}

std::string print(const Extent& extent, std::string_view separator, std::string_view comma) {
  std::string out;
  for (std::size_t i = 0; i < extent.num_dims(); ++i) {
    if (i != 0) out += comma;
    text::append_label(out, extent.labels()[i]);
    out += separator;
    out += std::to_string(extent.sizes()[i]);
  }
  return out;
}

}  // namespace

Result<Extent> Extent::make(std::vector<std::string> labels, std::vector<std::uint64_t> sizes) {
  if (labels.size() != sizes.size()) {
    return fail(ErrorCode::configuration_error,
                "extent: InvalidDims: expected a size for each of " +
                    std::to_string(labels.size()) + " labels, found " +
                    std::to_string(sizes.size()));
  }
  if (const std::optional<axes::Problem> problem = find_problem(labels, sizes)) {
    return fail(ErrorCode::configuration_error, "extent: " + problem->text);
  }
  Extent extent;
  if (labels.empty()) return extent;
  Axes made{std::move(labels), std::move(sizes), 1};
  for (const std::uint64_t size : made.sizes) {
    made.num_ranks *= size;  // cannot overflow: the product without zeros fits
  }
  extent.axes_ = std::make_shared<const Axes>(std::move(made));
  return extent;
}

Result<Extent> Extent::make(
    std::initializer_list<std::pair<std::string_view, std::uint64_t>> axes) {
  std::vector<std::string> labels;
  std::vector<std::uint64_t> sizes;
  for (const auto& [label, size] : axes) {
    labels.emplace_back(label);
    sizes.push_back(size);
  }
  return make(std::move(labels), std::move(sizes));
}

Result<Extent> Extent::parse(std::string_view text) {
  return parse(text::Scanner("extent", text));
}

Result<Extent> Extent::parse(text::Scanner part) {
  part.skip_spaces();
  const bool braces = part.accept('{');
  Result<axes::List> list =
      axes::parse_list(part, {.first = "a size", .colon = braces, .close = braces ? '}' : '\0'});
  if (!list) return fail(std::move(list).error());
  if (braces) {
    if (Result<void> close = part.expect('}'); !close) return fail(std::move(close).error());
    part.skip_spaces();
    if (Result<void> end = part.expect_end("the end"); !end) return fail(std::move(end).error());
  }
  if (const std::optional<axes::Problem> problem = find_problem(list->labels, list->first)) {
    return part.problem_at(list->label_at[problem->axis], problem->text);
  }
  return make(std::move(list->labels), std::move(list->first));
}

const std::vector<std::string>& Extent::labels() const noexcept {
  static const std::vector<std::string> none;
  return axes_ ? axes_->labels : none;
}

const std::vector<std::uint64_t>& Extent::sizes() const noexcept {
  static const std::vector<std::uint64_t> none;
  return axes_ ? axes_->sizes : none;
}

std::uint64_t Extent::num_ranks() const noexcept {
  return axes_ ? axes_->num_ranks : 1;
}

std::optional<std::size_t> Extent::find(std::string_view label) const noexcept {
  const auto found = std::find(labels().begin(), labels().end(), label);
  if (found == labels().end()) return std::nullopt;
  return static_cast<std::size_t>(found - labels().begin());
}

std::optional<std::uint64_t> Extent::size_of(std::string_view label) const noexcept {
  const std::optional<std::size_t> axis = find(label);
  if (!axis) return std::nullopt;
  return sizes()[*axis];
}

Result<std::uint64_t> Extent::rank_of(std::span<const std::uint64_t> coordinates) const {
  if (coordinates.size() != num_dims()) {
    return fail(ErrorCode::configuration_error,
                "extent: InvalidDims: expected a coordinate for each of " +
                    std::to_string(num_dims()) + " axes of " + to_string() + ", found " +
                    std::to_string(coordinates.size()));
  }
  std::uint64_t rank = 0;
  for (std::size_t i = 0; i < coordinates.size(); ++i) {
    if (coordinates[i] >= sizes()[i]) {
      return fail(ErrorCode::out_of_range, "extent: OutOfRangeIndex: expected a coordinate below " +
                                               std::to_string(sizes()[i]) + " for axis " +
                                               axes::show(labels()[i]) + ", found " +
                                               std::to_string(coordinates[i]));
    }
    // Cannot overflow: a size of 0 was an error above, or will be below; until then the product
    // without zeros bounds it.
    rank = rank * sizes()[i] + coordinates[i];
  }
  return rank;
}

Result<std::vector<std::uint64_t>> Extent::coordinates_of(std::uint64_t rank) const {
  if (rank >= num_ranks()) {
    return fail(ErrorCode::out_of_range, "extent: OutOfRangeRank: expected a rank below " +
                                             std::to_string(num_ranks()) + " in " + to_string() +
                                             ", found " + std::to_string(rank));
  }
  std::vector<std::uint64_t> coordinates(num_dims());
  for (std::size_t i = num_dims(); i-- > 0; rank /= sizes()[i]) coordinates[i] = rank % sizes()[i];
  return coordinates;
}

Result<Point> Extent::point_of(std::uint64_t rank) const {
  Result<std::vector<std::uint64_t>> coordinates = coordinates_of(rank);
  if (!coordinates) return fail(std::move(coordinates).error());
  return Point::make(*this, std::move(*coordinates));
}

std::string Extent::to_string() const {
  return "{" + print(*this, ": ", ", ") + "}";
}
std::string Extent::to_shape_string() const {
  return "{" + to_argument() + "}";
}
std::string Extent::to_argument() const {
  return print(*this, "=", ",");
}

[[gnu::visibility("default")]] bool operator==(const Extent& a, const Extent& b) noexcept {
  return a.axes_ == b.axes_ || (a.sizes() == b.sizes() && a.labels() == b.labels());
}

[[gnu::visibility("default")]] std::strong_ordering operator<=>(const Extent& a,
                                                                const Extent& b) noexcept {
  if (const auto order = a.labels() <=> b.labels(); order != 0) return order;
  return a.sizes() <=> b.sizes();
}

[[gnu::visibility("default")]] std::ostream& operator<<(std::ostream& out, const Extent& extent) {
  return out << extent.to_string();
}

Points Extent::points() const {
  return Points(*this);
}

Result<Extent> concat(const Extent& a, const Extent& b) {
  std::vector<std::string> labels = a.labels();
  std::vector<std::uint64_t> sizes = a.sizes();
  labels.insert(labels.end(), b.labels().begin(), b.labels().end());
  sizes.insert(sizes.end(), b.sizes().begin(), b.sizes().end());
  Result<Extent> both = Extent::make(std::move(labels), std::move(sizes));
  if (!both) return fail(both.error().within("concat " + a.to_string() + " and " + b.to_string()));
  return both;
}

}  // namespace meshbus

std::size_t std::hash<meshbus::Extent>::operator()(const meshbus::Extent& extent) const noexcept {
  return meshbus::axes::hash(extent.labels(), {extent.sizes()});
}
