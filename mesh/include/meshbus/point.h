#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "meshbus/extent.h"
#include "meshbus/index_iterator.h"
#include "meshbus/result.h"

/// A place in an extent.
///
///     using namespace meshbus;
///     Point point = *Extent::parse("x=4,y=5")->point_of(7);
///     std::cout << point;             // x=1/4,y=2/5: coordinate/size
///     point.rank();                   // 7
///     point.coordinate("y");          // 2
///     Point::parse("x=1/4,y=2/5") == point;
///     Point::parse("x=4/4").error();  // parse_error: point: at 2: OutOfRangeIndex: expected ...
namespace [[gnu::visibility("default")]] meshbus {

/// One coordinate per axis of an extent, each below its size. A plain value; use it on any thread.
class Point {
 public:
  /// The only point of an extent without axes.
  Point() = default;

  /// Errors: configuration_error (InvalidDims: not one coordinate per axis); out_of_range
  /// (OutOfRangeIndex).
  static Result<Point> make(Extent extent, std::vector<std::uint64_t> coordinates);
  /// Reads what to_string() printed. Errors: parse_error, with the position as a byte offset from
  /// 0.
  static Result<Point> parse(std::string_view text);
  static Result<Point> parse(text::Scanner part);

  const Extent& extent() const noexcept { return extent_; }  ///< What it is a point of.
  /// One per axis, in its order.
  const std::vector<std::uint64_t>& coordinates() const noexcept { return coordinates_; }
  /// The coordinate on the axis with that label, if there is one.
  std::optional<std::uint64_t> coordinate(std::string_view label) const noexcept;
  /// Row-major, in its extent.
  std::uint64_t rank() const noexcept;

  /// `x=1/4,y=2/5`; empty without axes.
  std::string to_string() const;

  friend bool operator==(const Point&, const Point&) = default;
  /// By extent, then coordinates: within one extent, the order of ranks.
  friend auto operator<=>(const Point&, const Point&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Point& point);

 private:
  friend class Points;
  Point(Extent extent, std::vector<std::uint64_t> coordinates)
      : extent_(std::move(extent)), coordinates_(std::move(coordinates)) {}

  Extent extent_;
  std::vector<std::uint64_t> coordinates_;
};

/// All points of an extent, in the order of their ranks.
class Points {
 public:
  explicit Points(Extent extent) : extent_(std::move(extent)) {}  ///< All points of it.

  std::uint64_t size() const noexcept { return extent_.num_ranks(); }  ///< How many.
  /// The point of that rank, which must be below size().
  Point operator[](std::uint64_t rank) const;
  IndexIterator<Points> begin() const noexcept { return {*this, 0}; }
  IndexIterator<Points> end() const noexcept { return {*this, size()}; }

 private:
  Extent extent_;
};

}  // namespace meshbus

template <>
struct std::hash<meshbus::Point> {
  std::size_t operator()(const meshbus::Point& point) const noexcept;
};
