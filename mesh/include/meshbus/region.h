#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "meshbus/extent.h"
#include "meshbus/index_iterator.h"
#include "meshbus/point.h"
#include "meshbus/result.h"

/// A box of ranks cut out of a mesh.
///
///     using namespace meshbus;
///     Region mesh = *Extent::parse("replica=2,host=2");     // every extent is a region
///     Region second = *mesh.range("replica", 1, 2);         // 2+replica=1/2,host=2/1
///     Region hosts = *mesh.at("replica", 1);                // 2+host=2/1
///     for (std::uint64_t rank : second.ranks()) use(rank);  // 2, 3: ranks of the mesh
///     second.ordinal_of(3);                                 // 1: its place in the slice
///     second.ordinal_of(0);                                 // nothing: not in the slice
///     second.point(3);                                      // replica=0/1,host=1/2: in the slice
///     RegionGroups groups = *mesh.group_by("host");         // one per replica
///     is_subset(second, mesh);                              // true
///     remap(mesh, second);                                  // 2, 3: its places in `mesh`
///     Region same = *Region::parse(second.to_string());     // == second
///     Region::parse("x=2/1,y=2/1").error();  // parse_error: region: at 6: NonuniqueStrides: ...
///     mesh.range("gpu", 0).error();          // configuration_error: region: InvalidDim: ...
///
/// Text: `[OFFSET+]LABEL=SIZE/STRIDE{,LABEL=SIZE/STRIDE}`; the offset only when it is not 0; no
/// axes print as nothing, or `8+`. A label stands bare when it matches [A-Za-z_][A-Za-z0-9_]*,
/// otherwise in double quotes with \" \\ \n \r \t and \u{hex}. White space around tokens is
/// skipped.
namespace [[gnu::visibility("default")]] meshbus {

class RankRange;
class RegionGroups;

/// A set of *base ranks*, those of the root mesh it was cut from, arranged as a labelled box and
/// iterated row-major over its axes as listed. The place of a rank in that order is its *ordinal*.
/// Coordinates c stand for base rank offset + sum of c * stride.
///
/// Valid, always: labels are unique, non-empty UTF-8; no stride is 0; with axes of size 0 and 1
/// left aside and the rest sorted by stride, each stride exceeds the sum of (size-1) * stride of
/// the smaller ones, so that no two ordinals share a base rank; base ranks are below 2^63 - 1. A
/// plain value; use it on any thread.
class Region {
 public:
  /// No axes: the one rank 0.
  Region() = default;
  /// Offset 0 and row-major strides: every extent is a region. Implicit on purpose.
  Region(const Extent& extent);  // NOLINT(google-explicit-constructor)

  /// O(axes * log axes). Errors: configuration_error with InvalidDims, StrideTooSmall,
  /// NonuniqueStrides, Overflow or what is wrong with a label.
  static Result<Region> make(std::vector<std::string> labels, std::uint64_t offset,
                             std::vector<std::uint64_t> sizes, std::vector<std::uint64_t> strides);
  /// Reads what to_string() printed. Errors: parse_error, with the position as a byte offset from
  /// 0, what was expected and what was found.
  static Result<Region> parse(std::string_view text);
  /// For parsers of longer texts inside meshbus: reads a whole part.
  static Result<Region> parse(text::Scanner part);

  std::size_t num_dims() const noexcept { return labels_.size(); }  ///< How many axes.
  /// One per axis, in order.
  const std::vector<std::string>& labels() const noexcept { return labels_; }
  std::uint64_t offset() const noexcept { return offset_; }  ///< The first base rank.
  /// How many there are along each axis.
  const std::vector<std::uint64_t>& sizes() const noexcept { return sizes_; }
  /// From one to the next along each axis, in base ranks.
  const std::vector<std::uint64_t>& strides() const noexcept { return strides_; }
  std::uint64_t num_ranks() const noexcept { return num_ranks_; }  ///< The product of the sizes.
  bool is_empty() const noexcept { return num_ranks_ == 0; }       ///< Whether there is no rank.
  /// The index of an axis, if there is one of that label.
  std::optional<std::size_t> find(std::string_view label) const noexcept;
  /// The labels and sizes: the space of this region's own points.
  Extent extent() const;

  /// The base rank at an ordinal. O(axes). Errors: out_of_range (OutOfRangeRank).
  Result<std::uint64_t> base_rank(std::uint64_t ordinal) const;
  /// The base rank of a point, which has this region's labels. Errors: configuration_error
  /// (InvalidDims: more or fewer axes; InvalidDim: another label at that place); out_of_range
  /// (OutOfRangeIndex: a coordinate not below the size here, whatever its extent says).
  Result<std::uint64_t> base_rank(const Point& point) const;
  /// The reverse: a point of extent(). Errors: out_of_range (OutOfRangeRank: the base rank is not
  /// in this region).
  Result<Point> point(std::uint64_t base_rank) const;
  /// The place of a base rank in this region, if it is in it. O(axes), without allocation.
  std::optional<std::uint64_t> ordinal_of(std::uint64_t base_rank) const noexcept;
  bool contains(std::uint64_t base_rank) const noexcept {
    return ordinal_of(base_rank).has_value();
  }
  /// The base ranks in order, for `for`. The region must outlive them.
  RankRange ranks() const& noexcept;
  RankRange ranks() const&& = delete;
  /// The points of extent(), in the same order.
  Points points() const { return extent().points(); }

  /// Every `step`th index from `begin` to before `end` of an axis, which stays, with size 1 if one
  /// index is left. No `end`, or one past the size, means the size. Ranges compose: indices are
  /// those of this region. Errors: configuration_error (InvalidDim: no such axis; step 0);
  /// out_of_range (EmptyRange: no index is left).
  Result<Region> range(std::string_view label, std::uint64_t begin,
                       std::optional<std::uint64_t> end = std::nullopt,
                       std::uint64_t step = 1) const;
  /// The ranks at one index of an axis, which is dropped. Errors: configuration_error (InvalidDim);
  /// out_of_range (OutOfRangeIndex).
  Result<Region> at(std::string_view label, std::uint64_t index) const;

  /// One region per coordinate of the axes before `label`, in their order, over `label` and the
  /// later axes. Without axes before it that is this region alone. Takes no memory per group.
  /// Errors: configuration_error (InvalidDim).
  Result<RegionGroups> group_by(std::string_view label) const;

  /// `8+x=2/1,"dim/0"=3/2`
  std::string to_string() const;

  /// Equal arrangement, not only equal ranks: labels, offset, sizes and strides.
  friend bool operator==(const Region& a, const Region& b) noexcept;
  /// By offset, labels, sizes, strides: an order for maps and sets.
  friend std::strong_ordering operator<=>(const Region& a, const Region& b) noexcept;
  friend std::ostream& operator<<(std::ostream& out, const Region& region);

 private:
  /// An axis of more than one index, as ordinal_of() needs it.
  struct Step {
    std::uint64_t stride;
    std::uint64_t size;
    std::uint64_t weight;  // ordinals from one index to the next
  };

  /// The parts must be valid.
  Region(std::vector<std::string> labels, std::uint64_t offset, std::vector<std::uint64_t> sizes,
         std::vector<std::uint64_t> strides);
  friend class RegionGroups;
  friend class Remap;
  /// The base rank at an ordinal below num_ranks().
  std::uint64_t rank_at(std::uint64_t ordinal) const noexcept;
  Result<std::size_t> axis(std::string_view label) const;

  std::vector<std::string> labels_;
  std::uint64_t offset_ = 0;
  std::vector<std::uint64_t> sizes_;
  std::vector<std::uint64_t> strides_;
  std::uint64_t num_ranks_ = 1;  // derived, like steps_
  std::vector<Step> steps_;      // largest stride first
};

/// The base ranks of a region, in its order. Each step costs O(1) on average.
class RankRange {
 public:
  class iterator {
   public:
    using value_type = std::uint64_t;
    using difference_type = std::ptrdiff_t;
    using reference = std::uint64_t;
    using pointer = void;
    using iterator_category =
        std::input_iterator_tag;  // C++17's forward iterators must return references
    using iterator_concept = std::forward_iterator_tag;

    iterator() = default;
    std::uint64_t operator*() const noexcept { return rank_; }
    iterator& operator++() noexcept;
    iterator operator++(int) {
      iterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const iterator& a, const iterator& b) noexcept {
      return a.left_ == b.left_;
    }

   private:
    friend class RankRange;
    iterator(const Region& region, std::uint64_t left);

    /// An axis of more than one index, and where on it we are.
    struct Wheel {
      std::uint64_t size;
      std::uint64_t stride;
      std::uint64_t index;
    };

    std::uint64_t left_ = 0;  // ranks from here to the end
    std::uint64_t rank_ = 0;
    std::vector<Wheel> wheels_;  // the fastest last
  };

  explicit RankRange(const Region& region) noexcept
      : region_(&region) {}  ///< The region must outlive it.
  iterator begin() const { return {*region_, region_->num_ranks()}; }
  iterator end() const { return {*region_, 0}; }
  std::uint64_t size() const noexcept { return region_->num_ranks(); }  ///< How many.

 private:
  const Region* region_;
};

/// What group_by() returns.
class RegionGroups {
 public:
  std::uint64_t size() const noexcept { return outer_.num_ranks(); }  ///< How many regions.
  /// The group of that index, which must be below size().
  Region operator[](std::uint64_t index) const;
  IndexIterator<RegionGroups> begin() const noexcept { return {*this, 0}; }
  IndexIterator<RegionGroups> end() const noexcept { return {*this, size()}; }

 private:
  friend class Region;
  RegionGroups(Region outer, Region inner) : outer_(std::move(outer)), inner_(std::move(inner)) {}

  Region outer_;  // its ranks are the offsets of the groups
  Region inner_;  // the first group, or what would be
};

/// Whether all base ranks of `a` are base ranks of `b`, whatever the labels and the order of the
/// axes. Exact for every pair. O(axes^2) when `a` is a slice of `b` or `b` is a whole mesh, and
/// never more than O(axes^2) for each rank of `a`, the smaller one.
bool is_subset(const Region& a, const Region& b);

/// For each base rank of a region, in its order, the ordinal of that rank in another region.
class Remap {
 public:
  /// How many ranks the target has.
  std::uint64_t size() const noexcept { return target_.num_ranks(); }
  /// For the rank at that ordinal of the target, which must be below size(). O(axes).
  std::uint64_t operator[](std::uint64_t ordinal) const noexcept;
  IndexIterator<Remap> begin() const noexcept { return {*this, 0}; }
  IndexIterator<Remap> end() const noexcept { return {*this, size()}; }

 private:
  friend std::optional<Remap> remap(const Region& self, const Region& target);
  Remap(Region self, Region target) : self_(std::move(self)), target_(std::move(target)) {}

  Region self_;
  Region target_;
};

/// Where in `self` the ranks of `target` are; nothing when `target` is not a subset of `self`.
/// Costs what is_subset() costs, and takes no memory per rank.
std::optional<Remap> remap(const Region& self, const Region& target);

}  // namespace meshbus

template <>
struct std::hash<meshbus::Region> {
  std::size_t operator()(const meshbus::Region& region) const noexcept;
};
