#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "meshbus/interned_values.h"
#include "meshbus/overlay.h"
#include "meshbus/rank_values.h"
#include "meshbus/region.h"
#include "meshbus/result.h"

/// A value for every rank of a mesh.
///
///     using namespace meshbus;
///     Region mesh = *Extent::parse("host=2,gpu=4");
///     ValueMesh<int> load(mesh, 0);                            // all ranks 0
///     load.set(5, 80);                                         // one rank
///     load.merge(Overlay<int>::of({{0, 2, 10}, {6, 8, 90}}));  // several: the overlay wins
///     *load.get(7);                                            // 90
///     load.at("host", 1)->get(3);                              // 90: a slice counts from 0
///     load.map([](int percent) { return percent > 50; });      // ValueMesh<bool>
///     ValueMesh<int>::make(mesh, {1, 2, 3}).error();
///         // invalid_rank_cardinality: value mesh: expected 8 values, found 3
namespace [[gnu::visibility("default")]] meshbus {

/// Types of which many ranks share few values say so (`static constexpr bool is_interned = true`):
/// see InternedValues.
template <typename T>
concept Interned = requires { requires T::is_interned; };

/// A region and one value per rank of it. Ranks are ordinals: places in the region's order, from 0.
/// Equal when region and values are, however they are stored. Memory is O(min(runs, ranks)); see
/// RankValues. A plain value; use it on any thread, one at a time when it changes. T needs a
/// default, a copy and ==; < too when it is interned.
template <typename T>
class ValueMesh {
 public:
  /// Every rank has the value.
  ValueMesh(Region region, T value)
      : region_(std::move(region)), values_(region_.num_ranks(), std::move(value)) {}
  /// One value per rank, in order. Errors: invalid_rank_cardinality.
  static Result<ValueMesh> make(Region region, const std::vector<T>& values);
  /// Errors: invalid_rank_cardinality unless the overlay has a value for every rank; out_of_range
  /// when it has one for another.
  static Result<ValueMesh> make(Region region, const Overlay<T>& overlay);
  /// Takes (rank, value) in any order; if a rank has several, the last one counts. Errors: as
  /// above.
  static Result<ValueMesh> make_indexed(Region region,
                                        std::vector<std::pair<std::uint64_t, T>> values);

  /// Its ranks, and how they are arranged.
  const Region& region() const noexcept { return region_; }
  std::uint64_t num_ranks() const noexcept { return region_.num_ranks(); }  ///< How many.
  /// The value of a rank, or null when there is no such rank. Valid until the mesh changes.
  const T* get(std::uint64_t ordinal) const noexcept {
    return ordinal < num_ranks() ? &values_.get(ordinal) : nullptr;
  }

  /// How many ranks have another value now. Errors: out_of_range; then nothing has changed.
  Result<std::uint64_t> set(std::uint64_t ordinal, const T& value);
  /// The same for the ranks begin..end-1.
  Result<std::uint64_t> set(std::uint64_t begin, std::uint64_t end, const T& value);
  /// Takes over all that the overlay says, and returns how many ranks have another value now.
  /// Errors: out_of_range when it says something about another rank; then nothing has changed.
  Result<std::uint64_t> merge(const Overlay<T>& overlay);

  /// The values of some of these ranks, arranged as `region`. O(ranks of the slice * axes).
  /// Errors: out_of_range when it has ranks that this mesh has not.
  Result<ValueMesh> sliced(Region region) const;
  /// As Region::range() and Region::at(), and with their errors.
  Result<ValueMesh> range(std::string_view label, std::uint64_t begin,
                          std::optional<std::uint64_t> end = std::nullopt,
                          std::uint64_t step = 1) const;
  Result<ValueMesh> at(std::string_view label, std::uint64_t index) const;

  /// The same ranks with other values: `f(value)` is called once per run.
  template <typename F>
  auto map(F f) const -> ValueMesh<std::decay_t<decltype(f(std::declval<const T&>()))>>;

  /// Neighbouring runs differ.
  std::uint64_t num_runs() const noexcept { return values_.num_runs(); }
  /// Calls `f(begin, end, value)` for each run, ascending.
  template <typename F>
  void for_each_run(F f) const {
    values_.for_each_run(f);
  }
  /// How many ranks have a value for which `is_meant(value)`. O(different values) when they are
  /// interned, else O(runs) or O(ranks).
  template <typename F>
  std::uint64_t count_if(F is_meant) const;
  /// All of it as an overlay.
  Overlay<T> overlay() const;

  /// How it is stored. Only of interest to tests and benchmarks: a change may turn it back.
  bool is_dense() const noexcept { return values_.is_dense(); }
  void expand() { values_.expand(); }
  void compress() { values_.compress(); }

  friend bool operator==(const ValueMesh& a, const ValueMesh& b) {
    return a.region_ == b.region_ && a.has_values_of(b);
  }

 private:
  template <typename U>
  friend class ValueMesh;
  using Values = std::conditional_t<Interned<T>, InternedValues<T>, RankValues<T>>;

  bool has_values_of(const ValueMesh& other) const;
  Result<void> check_end(std::uint64_t end) const;
  std::uint64_t replace(std::uint64_t begin, std::uint64_t end, const T& value);
  static void ignore(const T&, std::uint64_t) noexcept {}

  Region region_;
  Values values_;
};

// --- implementation ---

template <typename T>
Result<ValueMesh<T>> ValueMesh<T>::make(Region region, const std::vector<T>& values) {
  const std::uint64_t ranks = region.num_ranks();
  if (values.size() != ranks)
    return fail(ErrorCode::invalid_rank_cardinality, "value mesh: expected " +
                                                         std::to_string(ranks) + " values, found " +
                                                         std::to_string(values.size()));
  ValueMesh mesh(std::move(region), values.empty() ? T() : T(values[0]));
  for (std::uint64_t begin = 0, end = 0; begin < ranks; begin = end) {
    for (end = begin + 1; end < ranks && values[end] == values[begin];) ++end;
    mesh.values_.set(begin, end, values[begin], ignore);
  }
  return mesh;
}

template <typename T>
Result<ValueMesh<T>> ValueMesh<T>::make(Region region, const Overlay<T>& overlay) {
  ValueMesh mesh(std::move(region), overlay.is_empty() ? T() : overlay.runs()[0].value);
  if (auto merged = mesh.merge(overlay); !merged) return fail(std::move(merged).error());
  if (overlay.num_ranks() != mesh.num_ranks())
    return fail(ErrorCode::invalid_rank_cardinality,
                "value mesh: expected a value for each of " + std::to_string(mesh.num_ranks()) +
                    " ranks, found " + std::to_string(overlay.num_ranks()));
  return mesh;
}

template <typename T>
Result<ValueMesh<T>> ValueMesh<T>::make_indexed(Region region,
                                                std::vector<std::pair<std::uint64_t, T>> values) {
  std::stable_sort(values.begin(), values.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<RankRun<T>> runs;
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto& [rank, value] = values[i];
    const bool is_last = i + 1 == values.size() || values[i + 1].first != rank;
    if (is_last && rank < region.num_ranks()) append_run(runs, rank, rank + 1, std::move(value));
    if (rank >= region.num_ranks())
      return fail(ErrorCode::out_of_range, "value mesh: expected ranks below " +
                                               std::to_string(region.num_ranks()) + ", found " +
                                               std::to_string(rank));
  }
  return make(std::move(region), Overlay<T>::of(std::move(runs)));
}

template <typename T>
Result<void> ValueMesh<T>::check_end(std::uint64_t end) const {
  if (end <= num_ranks()) return {};
  return fail(ErrorCode::out_of_range, "value mesh: expected ranks below " +
                                           std::to_string(num_ranks()) + ", found " +
                                           std::to_string(end - 1));
}

template <typename T>
std::uint64_t ValueMesh<T>::replace(std::uint64_t begin, std::uint64_t end, const T& value) {
  std::uint64_t changed = 0;
  values_.set(begin, end, value, [&changed](const T&, std::uint64_t count) { changed += count; });
  return changed;
}

template <typename T>
Result<std::uint64_t> ValueMesh<T>::set(std::uint64_t ordinal, const T& value) {
  if (ordinal >= num_ranks())
    return fail(ErrorCode::out_of_range, "value mesh: expected a rank below " +
                                             std::to_string(num_ranks()) + ", found " +
                                             std::to_string(ordinal));
  return replace(ordinal, ordinal + 1, value);
}

template <typename T>
Result<std::uint64_t> ValueMesh<T>::set(std::uint64_t begin, std::uint64_t end, const T& value) {
  if (begin >= end) return 0;
  if (Result<void> fits = check_end(end); !fits) return fail(std::move(fits).error());
  return replace(begin, end, value);
}

template <typename T>
Result<std::uint64_t> ValueMesh<T>::merge(const Overlay<T>& overlay) {
  if (overlay.is_empty()) return 0;
  if (Result<void> fits = check_end(overlay.runs().back().end); !fits)
    return fail(std::move(fits).error());
  std::uint64_t changed = 0;
  for (const RankRun<T>& run : overlay.runs()) changed += replace(run.begin, run.end, run.value);
  return changed;
}

template <typename T>
Result<ValueMesh<T>> ValueMesh<T>::sliced(Region region) const {
  if (region == region_) return *this;
  // Runs of the slice, found rank by rank; of this mesh the run that was looked at last.
  std::uint64_t run_begin = 0;
  std::uint64_t run_end = 0;
  std::optional<ValueMesh> slice;
  std::uint64_t begin = 0;  // of the slice's run that is not yet written
  std::uint64_t end = 0;
  const T* value = nullptr;
  for (const std::uint64_t rank : region.ranks()) {
    const std::optional<std::uint64_t> ordinal = region_.ordinal_of(rank);
    if (!ordinal)
      return fail(ErrorCode::out_of_range, "value mesh: rank " + std::to_string(rank) +
                                               " of slice " + region.to_string() + " is not in " +
                                               region_.to_string());
    if (!slice) slice.emplace(region, *(value = &values_.get(*ordinal)));
    if (*ordinal < run_begin || *ordinal >= run_end) {
      const T* next = &values_.get(*ordinal);
      if (!(*next == *value)) {
        slice->values_.set(begin, end, *value, ignore);
        begin = end;
        value = next;
      }
      run_begin = *ordinal;
      run_end = is_dense() ? run_begin + 1 : values_.end_of_run(run_begin);
    }
    ++end;
  }
  if (!slice) return ValueMesh(std::move(region), T());
  slice->values_.set(begin, end, *value, ignore);
  return std::move(*slice);
}

template <typename T>
Result<ValueMesh<T>> ValueMesh<T>::range(std::string_view label, std::uint64_t begin,
                                         std::optional<std::uint64_t> end,
                                         std::uint64_t step) const {
  Result<Region> region = region_.range(label, begin, end, step);
  if (!region) return fail(std::move(region).error());
  return sliced(std::move(*region));
}

template <typename T>
Result<ValueMesh<T>> ValueMesh<T>::at(std::string_view label, std::uint64_t index) const {
  Result<Region> region = region_.at(label, index);
  if (!region) return fail(std::move(region).error());
  return sliced(std::move(*region));
}

template <typename T>
template <typename F>
auto ValueMesh<T>::map(F f) const
    -> ValueMesh<std::decay_t<decltype(f(std::declval<const T&>()))>> {
  using U = std::decay_t<decltype(f(std::declval<const T&>()))>;
  std::optional<ValueMesh<U>> out;
  for_each_run([&](std::uint64_t begin, std::uint64_t end, const T& value) {
    U mapped = f(value);
    if (out) {
      out->values_.set(begin, end, mapped, ValueMesh<U>::ignore);
    } else {
      out.emplace(region_, std::move(mapped));
    }
  });
  if (!out) out.emplace(region_, U());
  return std::move(*out);
}

template <typename T>
template <typename F>
std::uint64_t ValueMesh<T>::count_if(F is_meant) const {
  std::uint64_t count = 0;
  if constexpr (Interned<T>) {
    values_.for_each_value(
        [&](const T& value, std::uint64_t ranks) { count += is_meant(value) ? ranks : 0; });
  } else {
    for_each_run([&](std::uint64_t begin, std::uint64_t end, const T& value) {
      count += is_meant(value) ? end - begin : 0;
    });
  }
  return count;
}

template <typename T>
Overlay<T> ValueMesh<T>::overlay() const {
  std::vector<RankRun<T>> runs;
  runs.reserve(num_runs());
  for_each_run([&](std::uint64_t begin, std::uint64_t end, const T& value) {
    runs.push_back({begin, end, value});
  });
  return Overlay<T>::of(std::move(runs));
}

template <typename T>
bool ValueMesh<T>::has_values_of(const ValueMesh& other) const {
  if (num_runs() != other.num_runs()) return false;
  bool is_equal = true;
  // Both change equally often. So if the other one has the values that it should have on both sides
  // of each change here, it changes there too and nowhere else.
  for_each_run([&](std::uint64_t begin, std::uint64_t end, const T& value) {
    is_equal = is_equal && other.values_.get(begin) == value && other.values_.get(end - 1) == value;
  });
  return is_equal;
}

}  // namespace meshbus
