#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace [[gnu::visibility("default")]] meshbus {

/// One value for each of the ranks 0..num_ranks-1: what a ValueMesh keeps them in. As runs in a
/// tree while they are few, as a plain array when they are not; it changes over by itself, far
/// enough apart that this costs O(1) per update. So memory is O(min(runs, ranks)), and a rank is
/// set in O(log runs) or O(1) (docs/performance.md has the figures). T needs == and a copy;
/// references stay valid until the next change. Ranks must be in range: callers check.
template <typename T>
class RankValues {
 public:
  /// All ranks have the value.
  RankValues(std::uint64_t num_ranks, T value) : num_ranks_(num_ranks) {
    if (num_ranks != 0) runs_.emplace(0, std::move(value));
  }

  std::uint64_t num_ranks() const noexcept { return num_ranks_; }  ///< How many ranks.
  /// Neighbouring runs differ.
  std::uint64_t num_runs() const noexcept { return is_dense() ? dense_runs_ : runs_.size(); }
  bool is_dense() const noexcept { return !cells_.empty(); }

  /// The value of a rank below num_ranks().
  const T& get(std::uint64_t rank) const noexcept {
    return is_dense() ? cells_[rank].value : std::prev(runs_.upper_bound(rank))->second;
  }

  /// Gives the ranks begin..end-1 the value. `on_replaced(old value, count)` is called for each run
  /// that this changes, before it is gone.
  template <typename OnReplaced>
  void set(std::uint64_t begin, std::uint64_t end, const T& value, OnReplaced on_replaced) {
    if (is_dense()) {
      set_cells(begin, end, value, on_replaced);
      if (dense_runs_ < num_ranks_ / (4 * kRanksPerRun)) compress();
    } else {
      set_runs(begin, end, value, on_replaced);
      if (runs_.size() > num_ranks_ / kRanksPerRun) expand();
    }
  }

  /// Calls `f(begin, end, value)` for each run, ascending; neighbours differ.
  template <typename F>
  void for_each_run(F f) const {
    std::uint64_t end = 0;
    for (auto run = runs_.begin(); run != runs_.end();) {
      const auto here = run++;
      f(here->first, run == runs_.end() ? num_ranks_ : run->first, here->second);
    }
    for (std::uint64_t begin = 0; begin < cells_.size(); begin = end) {
      end = end_of_run(begin);
      f(begin, end, cells_[begin].value);
    }
  }

  /// Where the run of a rank ends. O(its length) when dense.
  std::uint64_t end_of_run(std::uint64_t rank) const noexcept {
    if (!is_dense()) {
      const auto next = runs_.upper_bound(rank);
      return next == runs_.end() ? num_ranks_ : next->first;
    }
    std::uint64_t end = rank + 1;
    while (end < cells_.size() && cells_[end].value == cells_[rank].value) ++end;
    return end;
  }

  /// Turns into an array, whatever that takes: O(ranks).
  void expand() {
    if (is_dense()) return;
    std::vector<Cell> cells;
    cells.reserve(num_ranks_);
    for_each_run([&](std::uint64_t begin, std::uint64_t end, const T& value) {
      cells.insert(cells.end(), end - begin, Cell{value});
    });
    dense_runs_ = runs_.size();
    runs_.clear();
    cells_ = std::move(cells);
  }
  /// Turns into runs, however many.
  void compress() {
    if (!is_dense()) return;
    std::map<std::uint64_t, T> runs;
    for_each_run([&](std::uint64_t begin, std::uint64_t, const T& value) {
      runs.emplace_hint(runs.end(), begin, value);
    });
    runs_ = std::move(runs);
    cells_ = {};
  }

 private:
  /// An array takes over when runs are shorter than this on average, and gives way when they are
  /// four times as long: a run in the tree takes as much memory as about 56 one-byte ranks.
  static constexpr std::uint64_t kRanksPerRun = 64;

  struct Cell {  // not T itself: of bool, a vector has no references
    T value;
  };

  bool differ_at(std::uint64_t rank) const noexcept {
    return rank > 0 && rank < cells_.size() && !(cells_[rank - 1].value == cells_[rank].value);
  }

  template <typename OnReplaced>
  void set_cells(std::uint64_t begin, std::uint64_t end, const T& value, OnReplaced& on_replaced) {
    for (std::uint64_t rank = begin; rank < end;) {
      std::uint64_t stop = rank + 1;  // not end_of_run(): what lies behind `end` may be long
      while (stop < end && cells_[stop].value == cells_[rank].value) ++stop;
      if (!(cells_[rank].value == value)) {
        on_replaced(cells_[rank].value, stop - rank);
        dense_runs_ -= (differ_at(rank) ? 1U : 0U) + (differ_at(stop) ? 1U : 0U);
        std::fill(cells_.begin() + static_cast<std::ptrdiff_t>(rank),
                  cells_.begin() + static_cast<std::ptrdiff_t>(stop), Cell{value});
        dense_runs_ += (differ_at(rank) ? 1U : 0U) + (differ_at(stop) ? 1U : 0U);
      }
      rank = stop;
    }
  }

  /// Makes a run begin at this rank and returns it; the end of all ranks has none.
  auto split(std::uint64_t rank) {
    if (rank == num_ranks_) return runs_.end();
    const auto next = runs_.lower_bound(rank);
    if (next != runs_.end() && next->first == rank) return next;
    return runs_.emplace_hint(next, rank, std::prev(next)->second);
  }

  template <typename OnReplaced>
  void set_runs(std::uint64_t begin, std::uint64_t end, const T& value, OnReplaced& on_replaced) {
    const auto old = std::prev(runs_.upper_bound(begin));
    if (old->second == value && end <= end_of_run(begin)) return;
    const auto after = split(end);
    auto first = split(begin);
    for (auto run = first; run != after;) {
      const auto here = run++;
      if (!(here->second == value))
        on_replaced(here->second, (run == runs_.end() ? num_ranks_ : run->first) - here->first);
    }
    first->second = value;
    runs_.erase(std::next(first), after);
    // Not `value` any more: it may have been in a run that is gone.
    if (after != runs_.end() && after->second == first->second) runs_.erase(after);
    if (first != runs_.begin() && std::prev(first)->second == first->second) runs_.erase(first);
  }

  std::uint64_t num_ranks_;
  std::map<std::uint64_t, T> runs_;  // where a run begins -> its value; empty when dense
  std::vector<Cell> cells_;
  std::uint64_t dense_runs_ = 0;
};

}  // namespace meshbus
