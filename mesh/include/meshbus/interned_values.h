#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "meshbus/rank_values.h"

namespace [[gnu::visibility("default")]] meshbus {

/// RankValues for big values of which few are different, such as statuses: each is kept once, and a
/// rank costs one byte while there are at most 256 of them, else four. A value that no rank has any
/// more is forgotten. T needs < and ==.
template <typename T>
class InternedValues {
 public:
  /// All ranks have that value.
  InternedValues(std::uint64_t num_ranks, T value) : ids_(Narrow(num_ranks, 0)) {
    if (num_ranks == 0) return;
    index_.emplace(value, 0);
    slots_.push_back({std::move(value), num_ranks});
  }

  /// How many ranks.
  std::uint64_t num_ranks() const noexcept {
    return std::visit([](const auto& ids) { return ids.num_ranks(); }, ids_);
  }
  std::uint64_t num_runs() const noexcept {
    return std::visit([](const auto& ids) { return ids.num_runs(); }, ids_);
  }
  bool is_dense() const noexcept {
    return std::visit([](const auto& ids) { return ids.is_dense(); }, ids_);
  }
  const T& get(std::uint64_t rank) const noexcept {
    return std::visit([&](const auto& ids) -> const T& { return slots_[ids.get(rank)].value; },
                      ids_);
  }
  std::uint64_t end_of_run(std::uint64_t rank) const noexcept {
    return std::visit([&](const auto& ids) { return ids.end_of_run(rank); }, ids_);
  }

  /// Gives ranks begin .. end-1 that value; tells `replaced` of what each run of them had before.
  template <typename OnReplaced>
  void set(std::uint64_t begin, std::uint64_t end, const T& value, OnReplaced on_replaced) {
    const std::uint32_t id = intern(value);
    slots_[id].ranks += end - begin;
    std::uint64_t unchanged = end - begin;
    std::visit(
        [&](auto& ids) {
          using Id = std::decay_t<decltype(ids.get(0))>;
          ids.set(begin, end, static_cast<Id>(id), [&](Id old, std::uint64_t count) {
            unchanged -= count;
            on_replaced(slots_[old].value, count);
            drop(old, count);
          });
        },
        ids_);
    drop(id, unchanged);
  }

  /// Calls f(begin, end, value) for each run, in order.
  template <typename F>
  void for_each_run(F f) const {
    std::visit(
        [&](const auto& ids) {
          ids.for_each_run([&](std::uint64_t begin, std::uint64_t end, auto id) {
            f(begin, end, slots_[id].value);
          });
        },
        ids_);
  }
  /// Calls `f(value, count)` for each different value, in no order. O(different values).
  template <typename F>
  void for_each_value(F f) const {
    for (const Slot& slot : slots_) {
      if (slot.ranks != 0) f(slot.value, slot.ranks);
    }
  }

  /// One cell per rank from now on.
  void expand() {
    std::visit([](auto& ids) { ids.expand(); }, ids_);
  }
  /// Runs from now on.
  void compress() {
    std::visit([](auto& ids) { ids.compress(); }, ids_);
  }

 private:
  using Narrow = RankValues<std::uint8_t>;
  using Wide = RankValues<std::uint32_t>;
  static constexpr std::size_t kNarrowLimit = 256;

  struct Slot {
    T value;
    std::uint64_t ranks;  // that have it; 0 = the slot is free
  };

  std::uint32_t intern(const T& value) {
    // Updates come in rows of the same value.
    if (last_ < slots_.size() && slots_[last_].ranks != 0 && slots_[last_].value == value)
      return last_;
    if (const auto found = index_.find(value); found != index_.end()) return last_ = found->second;
    if (free_.empty()) {
      if (slots_.size() == kNarrowLimit) widen();
      free_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.push_back({value, 0});
    }
    last_ = free_.back();
    free_.pop_back();
    slots_[last_].value = value;
    index_.emplace(slots_[last_].value, last_);
    return last_;
  }

  void drop(std::uint32_t id, std::uint64_t count) {
    slots_[id].ranks -= count;
    if (slots_[id].ranks != 0) return;
    index_.erase(slots_[id].value);
    slots_[id].value = T();
    free_.push_back(id);
  }

  void widen() {
    const Narrow& narrow = *std::get_if<Narrow>(&ids_);
    Wide wide(narrow.num_ranks(), 0);
    const auto ignore = [](std::uint32_t, std::uint64_t) {};
    narrow.for_each_run([&](std::uint64_t begin, std::uint64_t end, std::uint8_t id) {
      wide.set(begin, end, id, ignore);
    });
    ids_ = std::move(wide);
  }

  std::variant<Narrow, Wide> ids_;
  std::vector<Slot> slots_;           // by id
  std::map<T, std::uint32_t> index_;  // value -> id
  std::vector<std::uint32_t> free_;   // slots that may be used again
  std::uint32_t last_ = 0;            // the id that was asked for last
};

}  // namespace meshbus
