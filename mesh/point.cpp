#include "meshbus/point.h"

#include <ostream>

#include "mesh/axes.h"

namespace meshbus {

Result<Point> Point::make(Extent extent, std::vector<std::uint64_t> coordinates) {
  const Result<std::uint64_t> rank = extent.rank_of(coordinates);
  if (!rank) return fail(rank.error().within("point"));
  return Point(std::move(extent), std::move(coordinates));
}

Result<Point> Point::parse(std::string_view text) {
  return parse(text::Scanner("point", text));
}

Result<Point> Point::parse(text::Scanner part) {
  Result<axes::List> list = axes::parse_list(part, {.first = "a coordinate", .second = "a size"});
  if (!list) return fail(std::move(list).error());
  std::optional<axes::Problem> problem = axes::find_label_problem(list->labels);
  if (!problem) problem = axes::find_size_problem(list->labels, list->second);
  if (problem) return part.problem_at(list->label_at[problem->axis], problem->text);
  for (std::size_t i = 0; i < list->labels.size(); ++i) {
    if (list->first[i] < list->second[i]) continue;
    return part.problem_at(list->first_at[i],
                           "OutOfRangeIndex: expected a coordinate below its size " +
                               std::to_string(list->second[i]) + ", found " +
                               std::to_string(list->first[i]));
  }
  Result<Extent> extent = Extent::make(std::move(list->labels), std::move(list->second));
  if (!extent) return fail(std::move(extent).error());
  return Point(std::move(*extent), std::move(list->first));
}

std::optional<std::uint64_t> Point::coordinate(std::string_view label) const noexcept {
  const std::optional<std::size_t> axis = extent_.find(label);
  if (!axis) return std::nullopt;
  return coordinates_[*axis];
}

std::uint64_t Point::rank() const noexcept {
  std::uint64_t rank = 0;
  for (std::size_t i = 0; i < coordinates_.size(); ++i)
    rank = rank * extent_.sizes()[i] + coordinates_[i];
  return rank;
}

std::string Point::to_string() const {
  std::string out;
  for (std::size_t i = 0; i < coordinates_.size(); ++i) {
    if (i != 0) out += ',';
    text::append_label(out, extent_.labels()[i]);
    out += "=" + std::to_string(coordinates_[i]) + "/" + std::to_string(extent_.sizes()[i]);
  }
  return out;
}

[[gnu::visibility("default")]] std::ostream& operator<<(std::ostream& out, const Point& point) {
  return out << point.to_string();
}

Point Points::operator[](std::uint64_t rank) const {
  std::vector<std::uint64_t> coordinates(extent_.num_dims());
  for (std::size_t i = coordinates.size(); i-- > 0; rank /= extent_.sizes()[i])
    coordinates[i] = rank % extent_.sizes()[i];
  return Point(extent_, std::move(coordinates));
}

}  // namespace meshbus

std::size_t std::hash<meshbus::Point>::operator()(const meshbus::Point& point) const noexcept {
  return meshbus::axes::hash(point.extent().labels(),
                             {point.extent().sizes(), point.coordinates()});
}
