#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshbus/result.h"

/// The shape of a mesh: labelled axes with sizes.
///
///     using namespace meshbus;
///     Extent gpus = *Extent::parse("host=2,gpu=8");  // or {host: 2, gpu: 8}, or {host=2,gpu=8}
///     gpus.num_ranks();                                    // 16
///     gpus.rank_of(std::array<std::uint64_t, 2>{1, 3});    // 11: row-major
///     Point point = *gpus.point_of(11);                    // host=1/2,gpu=3/8 (meshbus/point.h)
///     Extent all = *concat(*Extent::make({{"replica", 4}}), gpus);
///     std::cout << all;                                    // {replica: 4, host: 2, gpu: 8}
///     for (const Point& point : gpus.points()) use(point); // host=0/2,gpu=0/8 and 15 more
///     Extent::parse("host=2,host=8").error();
///         // parse_error: extent: at 7: label host occurs twice
///     Extent{}.num_ranks();                                // 1: no axes, one rank
///
/// Plain values of constant size: copies share the axes. Use them on any thread.
namespace [[gnu::visibility("default")]] meshbus {

class Point;
class Points;
namespace text {
class Scanner;
}

/// Ordered axes, each with a label and a size. No axes = exactly 1 rank; a size may be 0 = 0 ranks.
/// Labels are unique, non-empty UTF-8. The product of the sizes, those of 0 left out, fits in 63
/// bits.
class Extent {
 public:
  /// No axes: 1 rank.
  Extent() = default;

  /// Errors: configuration_error: InvalidDims (more or fewer labels than sizes), an empty, repeated
  /// or non-UTF-8 label, a product over 63 bits.
  static Result<Extent> make(std::vector<std::string> labels, std::vector<std::uint64_t> sizes);
  static Result<Extent> make(
      std::initializer_list<std::pair<std::string_view, std::uint64_t>> axes);

  /// Reads `host=2,gpu=8` (the command line's form), `{host=2,gpu=8}` and `{host: 2, gpu: 8}`;
  /// labels as in region texts (region.h). Errors: parse_error, with the position as a byte offset
  /// from 0.
  static Result<Extent> parse(std::string_view text);
  /// For parsers of longer texts inside meshbus: reads a whole part.
  static Result<Extent> parse(text::Scanner part);

  std::size_t num_dims() const noexcept { return labels().size(); }  ///< How many axes.
  const std::vector<std::string>& labels() const noexcept;           ///< One per axis, in order.
  const std::vector<std::uint64_t>& sizes() const noexcept;          ///< One per axis, in order.
  /// The product of the sizes: below 2^63.
  std::uint64_t num_ranks() const noexcept;
  /// The index of an axis, if there is one of that label.
  std::optional<std::size_t> find(std::string_view label) const noexcept;
  /// The size of an axis, if there is one of that label.
  std::optional<std::uint64_t> size_of(std::string_view label) const noexcept;

  /// The row-major rank of coordinates, one per axis.
  /// Errors: configuration_error (InvalidDims: not one per axis); out_of_range (OutOfRangeIndex: a
  /// coordinate not below its size).
  Result<std::uint64_t> rank_of(std::span<const std::uint64_t> coordinates) const;
  /// The reverse. Errors: out_of_range (OutOfRangeRank).
  Result<std::vector<std::uint64_t>> coordinates_of(std::uint64_t rank) const;
  Result<Point> point_of(std::uint64_t rank) const;
  /// All points in the order of their ranks, for `for`.
  Points points() const;

  /// `{host: 2, gpu: 8}`
  std::string to_string() const;
  /// `{host=2,gpu=8}`
  std::string to_shape_string() const;
  /// `host=2,gpu=8`, as on the command line.
  std::string to_argument() const;

  friend bool operator==(const Extent& a, const Extent& b) noexcept;
  /// By labels, then sizes: an order for maps and sets.
  friend std::strong_ordering operator<=>(const Extent& a, const Extent& b) noexcept;
  friend std::ostream& operator<<(std::ostream& out, const Extent& extent);

 private:
  struct Axes {
    std::vector<std::string> labels;
    std::vector<std::uint64_t> sizes;
    std::uint64_t num_ranks = 1;
  };

  std::shared_ptr<const Axes> axes_;  // null = no axes
};

/// The axes of `a`, then those of `b`; an extent without axes changes nothing.
/// Errors: configuration_error, naming the first label of `b` that is already in `a`, or the axis
/// at which the product exceeds 63 bits.
Result<Extent> concat(const Extent& a, const Extent& b);

}  // namespace meshbus

template <>
struct std::hash<meshbus::Extent> {
  std::size_t operator()(const meshbus::Extent& extent) const noexcept;
};
