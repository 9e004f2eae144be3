#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "meshbus/index_iterator.h"
#include "meshbus/point.h"
#include "meshbus/region.h"
#include "meshbus/result.h"

/// Slicing and walking whatever has one item per rank: references to hosts and procs,
/// values, your own.
///
///     using namespace meshbus;
///     HostMeshRef hosts = ...;                               // replica=2,host=2
///     for (const auto& [point, host] : View(hosts)) use(host);
///         // point: replica=0/2,host=0/2 and so on
///     View second = *View(hosts).range("replica", 1, 2);     // no item is copied
///     second.get(0);                                         // the item that hosts.get(2) gives
///     for (const auto& [point, host] : second) use(point);   // replica=0/1,host=0/2: of the view
///     second.at("host", 7).error();                          // out_of_range: region: ...
namespace [[gnu::visibility("default")]] meshbus {

/// Has `region()`, and `get(ordinal)`, which answers with a pointer, an optional or a Result:
/// nothing when there is no such ordinal.
template <typename T>
concept Ranked = requires(const T& collection, std::uint64_t ordinal) {
  { collection.region() } -> std::convertible_to<const Region&>;
  static_cast<bool>(collection.get(ordinal));
  *collection.get(ordinal);
};

/// Some ranks of a collection, arranged as a region. Holds a pointer to the collection, which must
/// outlive it, and no items; itself ranked. A plain value; use it on any thread, as long as nobody
/// changes the collection.
template <Ranked Collection>
class View {
  using Got = decltype(std::declval<const Collection&>().get(std::uint64_t{}));
  // What a pointer points at stays where it is; what an optional or a Result holds goes with it.
  using Item = std::conditional_t<std::is_pointer_v<Got>, decltype(*std::declval<Got>()),
                                  std::remove_cvref_t<decltype(*std::declval<Got>())>>;

 public:
  /// All ranks of the collection.
  explicit View(const Collection& collection)
      : collection_(&collection), region_(collection.region()) {}
  explicit View(const Collection&&) = delete;

  /// The ranks, and how they are arranged.
  const Region& region() const noexcept { return region_; }
  std::uint64_t num_ranks() const noexcept { return region_.num_ranks(); }  ///< How many.
  /// The shape of the view, without what is left out between.
  Extent extent() const { return region_.extent(); }
  /// What the collection's get() answers for the rank at this ordinal of the view, or for none when
  /// the view has no such ordinal.
  Got get(std::uint64_t ordinal) const {
    const Result<std::uint64_t> rank = region_.base_rank(ordinal);
    return collection_->get(rank ? *collection_->region().ordinal_of(*rank)
                                 : collection_->region().num_ranks());
  }

  /// The same collection through a region of the same base ranks. Errors: out_of_range when it has
  /// ranks that this view has not.
  Result<View> sliced(Region region) const {
    if (!is_subset(region, region_)) {
      return fail(ErrorCode::out_of_range, "view: expected a region of ranks of \"" +
                                               region_.to_string() + "\", found \"" +
                                               region.to_string() + "\", which has others");
    }
    return View(*collection_, std::move(region));
  }
  /// As Region::range() and Region::at(), and with their errors.
  Result<View> range(std::string_view label, std::uint64_t begin,
                     std::optional<std::uint64_t> end = std::nullopt,
                     std::uint64_t step = 1) const {
    return with(region_.range(label, begin, end, step));
  }
  Result<View> at(std::string_view label, std::uint64_t index) const {
    return with(region_.at(label, index));
  }

  /// Iterates as (Point in the view's own extent, item), in the order of the region.
  std::pair<Point, Item> operator[](std::uint64_t ordinal) const {
    return {Points(extent())[ordinal], *get(ordinal)};
  }
  IndexIterator<View> begin() const noexcept { return {*this, 0}; }
  IndexIterator<View> end() const noexcept { return {*this, num_ranks()}; }

 private:
  View(const Collection& collection, Region region)
      : collection_(&collection), region_(std::move(region)) {}
  Result<View> with(Result<Region> region) const {
    if (!region) return fail(std::move(region).error());
    return View(*collection_, std::move(*region));
  }

  const Collection* collection_;
  Region region_;
};

}  // namespace meshbus
