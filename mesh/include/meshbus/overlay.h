#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshbus/result.h"

/// Values for some of the ranks of a mesh: what a host says about its own ranks, or what
/// has changed since last time.
///
///     using namespace meshbus;
///     TextOverlay first = *parse_overlay("0..5=A,5..10=B");
///     TextOverlay second = *parse_overlay("3..7=C");
///     to_string(merge(first, second));  // 0..3=A,3..7=C,7..10=B: the right one wins
///     *first.find(4);                   // "A"
///     first.find(10);                   // null: no value for rank 10
///     TextOverlay::of({{0, 9, "A"}, {3, 4, "B"}, {3, 4, "A"}});
///         // 0..9=A: later runs win, equal neighbours are joined
///     parse_overlay("0..5=A,4..6=B").error();
///         // parse_error: overlay: at 7: rank 4 occurs twice
namespace [[gnu::visibility("default")]] meshbus {

/// Ranks begin, begin+1, ... end-1, all with one value.
template <typename T>
struct RankRun {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  T value = {};  ///< What all of them have.

  std::uint64_t size() const noexcept { return end - begin; }  ///< How many ranks.
  friend bool operator==(const RankRun&, const RankRun&) = default;
};

/// Adds a run behind ascending disjoint runs, joining it with the last one when they touch and are
/// equal. An empty run adds nothing.
template <typename T, typename U>
void append_run(std::vector<RankRun<T>>& runs, std::uint64_t begin, std::uint64_t end, U&& value) {
  if (begin >= end) return;
  if (!runs.empty() && runs.back().end == begin && runs.back().value == value) {
    runs.back().end = end;
  } else {
    runs.push_back({begin, end, std::forward<U>(value)});
  }
}

/// A map from ranks to values, kept as runs: ascending, not empty, disjoint, and neighbours that
/// touch differ. So equal overlays have equal runs. Takes memory for its runs, however many ranks
/// they cover. A plain value; use it on any thread. T needs ==.
template <typename T>
class Overlay {
 public:
  using Run = RankRun<T>;  ///< Ranks in a row, and their value.

  Overlay() = default;
  /// Takes runs in any order; where they overlap, the later one in the list wins. A run whose end
  /// is not above its begin is ignored. O(n log n).
  static Overlay of(std::vector<Run> runs);

  /// Sorted, disjoint, and neighbours differ.
  const std::vector<Run>& runs() const noexcept { return runs_; }
  bool is_empty() const noexcept { return runs_.empty(); }  ///< Whether it has no rank.
  /// How many ranks have a value.
  std::uint64_t num_ranks() const noexcept;
  /// The value of a rank, or null. Valid until the overlay changes. O(log runs).
  const T* find(std::uint64_t rank) const noexcept;

  /// Gives the ranks begin..end-1 this value, whatever they had. O(log runs) to find the place, and
  /// what has to be moved behind it; at the end O(1).
  void set(std::uint64_t begin, std::uint64_t end, T value);
  /// Takes over all that `right` says, which wins. O(runs of both); what lies behind all runs of
  /// this one is appended.
  void merge(const Overlay& right);

  /// The same ranks with other values: `f` is called once per run.
  template <typename F>
  auto map(F f) const -> Overlay<std::decay_t<decltype(f(std::declval<const T&>()))>> {
    using U = std::decay_t<decltype(f(std::declval<const T&>()))>;
    std::vector<RankRun<U>> out;
    out.reserve(runs_.size());
    for (const Run& run : runs_) append_run(out, run.begin, run.end, f(run.value));
    return Overlay<U>::of(std::move(out));
  }

  friend bool operator==(const Overlay&, const Overlay&) = default;

 private:
  static bool is_canonical(const std::vector<Run>& runs) noexcept;

  std::vector<Run> runs_;
};

/// What a plain map would hold after all of `left` and then all of `right` was written into it.
/// O(runs of both).
template <typename T>
Overlay<T> merge(Overlay<T> left, const Overlay<T>& right) {
  left.merge(right);
  return left;
}

/// The overlays of people and scripts. Text: `0..5=A,5..10="two words"`: half-open rank intervals
/// in any order, without overlap, parted by commas; nothing is the empty overlay. A value stands
/// bare when it is made of letters, digits, `_`, `-` and `.`, otherwise in double quotes with the
/// escapes of region.h. White space around tokens is skipped. Prints ascending and joined.
using TextOverlay = Overlay<std::string>;
/// Values that are not UTF-8 print with U+FFFD in place of what is wrong.
std::string to_string(const TextOverlay& overlay);
/// Errors: parse_error, with the position as a byte offset from 0.
Result<TextOverlay> parse_overlay(std::string_view text);

// --- implementation ---

template <typename T>
bool Overlay<T>::is_canonical(const std::vector<Run>& runs) noexcept {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].begin >= runs[i].end) return false;
    if (i != 0 && (runs[i].begin < runs[i - 1].end ||
                   (runs[i].begin == runs[i - 1].end && runs[i].value == runs[i - 1].value)))
      return false;
  }
  return true;
}

template <typename T>
Overlay<T> Overlay<T>::of(std::vector<Run> runs) {
  Overlay out;
  if (is_canonical(runs)) {
    out.runs_ = std::move(runs);
    return out;
  }
  // Bottom-up merging keeps the order of the list, which decides which run wins.
  std::vector<Overlay> parts;
  parts.reserve(runs.size());
  for (Run& run : runs) {
    if (run.begin >= run.end) continue;
    parts.emplace_back().runs_.push_back(std::move(run));
  }
  for (; parts.size() > 1; parts.resize((parts.size() + 1) / 2)) {
    for (std::size_t i = 0; i < parts.size(); i += 2) {
      if (i + 1 < parts.size()) parts[i].merge(parts[i + 1]);
      if (i != 0) parts[i / 2] = std::move(parts[i]);
    }
  }
  if (!parts.empty()) out = std::move(parts.front());
  return out;
}

template <typename T>
std::uint64_t Overlay<T>::num_ranks() const noexcept {
  std::uint64_t count = 0;
  for (const Run& run : runs_) count += run.size();
  return count;
}

template <typename T>
const T* Overlay<T>::find(std::uint64_t rank) const noexcept {
  const auto after =
      std::upper_bound(runs_.begin(), runs_.end(), rank,
                       [](std::uint64_t at, const Run& run) { return at < run.end; });
  return after == runs_.end() || rank < after->begin ? nullptr : &after->value;
}

template <typename T>
void Overlay<T>::set(std::uint64_t begin, std::uint64_t end, T value) {
  if (begin >= end) return;
  if (runs_.empty() || runs_.back().end <= begin) {
    append_run(runs_, begin, end, std::move(value));
    return;
  }
  // The runs that overlap or touch are replaced by what is left of the outer two, and the new one
  // between them.
  const auto first =
      std::lower_bound(runs_.begin(), runs_.end(), begin,
                       [](const Run& run, std::uint64_t at) { return run.end < at; });
  const auto last = std::upper_bound(
      first, runs_.end(), end, [](std::uint64_t at, const Run& run) { return at < run.begin; });
  std::vector<Run> middle;
  if (first != last && first->begin < begin) append_run(middle, first->begin, begin, first->value);
  append_run(middle, begin, end, std::move(value));
  if (first != last && std::prev(last)->end > end)
    append_run(middle, end, std::prev(last)->end, std::prev(last)->value);
  const auto here = std::min(middle.size(), static_cast<std::size_t>(last - first));
  const auto put =
      std::move(middle.begin(), middle.begin() + static_cast<std::ptrdiff_t>(here), first);
  if (here < middle.size()) {
    runs_.insert(put, std::make_move_iterator(middle.begin() + static_cast<std::ptrdiff_t>(here)),
                 std::make_move_iterator(middle.end()));
  } else {
    runs_.erase(put, last);
  }
}

template <typename T>
void Overlay<T>::merge(const Overlay& right) {
  if (this == &right) return;
  if (runs_.empty() || right.runs_.empty() || runs_.back().end <= right.runs_.front().begin) {
    for (const Run& run : right.runs_) append_run(runs_, run.begin, run.end, run.value);
    return;
  }
  if (right.runs_.size() == 1)
    return set(right.runs_[0].begin, right.runs_[0].end, right.runs_[0].value);
  std::vector<Run> out;
  out.reserve(runs_.size() + right.runs_.size());
  std::size_t i = 0;
  std::uint64_t from = 0;  // what lies before it has been dealt with
  for (const Run& run : right.runs_) {
    for (; i < runs_.size() && runs_[i].begin < run.begin; ++i) {
      append_run(out, std::max(runs_[i].begin, from), std::min(runs_[i].end, run.begin),
                 runs_[i].value);
      if (runs_[i].end > run.begin) break;
    }
    append_run(out, run.begin, run.end, run.value);
    from = run.end;
    while (i < runs_.size() && runs_[i].end <= from) ++i;
  }
  for (; i < runs_.size(); ++i)
    append_run(out, std::max(runs_[i].begin, from), runs_[i].end, std::move(runs_[i].value));
  runs_ = std::move(out);
}

}  // namespace meshbus
