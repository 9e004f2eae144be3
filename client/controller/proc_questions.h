#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace meshbus {

/// Which procs a controller has to ask about their actors, so many at a time. Pure.
class ProcQuestions {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// Procs that are asked at a time.
  static constexpr std::size_t kMostAsked = 256;

  void add(std::uint64_t rank) { ranks_.insert(rank); }
  void add_later(Time when, std::uint64_t rank) { later_.emplace(when, rank); }
  /// The next rank to ask, when there is one and not too many are asked already.
  std::optional<std::uint64_t> take(Time now) {
    for (; !later_.empty() && later_.begin()->first <= now; later_.erase(later_.begin()))
      ranks_.insert(later_.begin()->second);
    if (ranks_.empty() || asked_.size() >= kMostAsked) return std::nullopt;
    return ranks_.extract(ranks_.begin()).value();
  }
  /// The answer of that incarnation of the proc is awaited, or has come.
  void begin(std::uint64_t rank, std::uint64_t incarnation) { asked_.emplace(rank, incarnation); }
  void end(std::uint64_t rank, std::uint64_t incarnation) { asked_.erase({rank, incarnation}); }
  /// When take() has something again; `now` if it has.
  std::optional<Time> next_due(Time now) const {
    if (!ranks_.empty() && asked_.size() < kMostAsked) return now;
    return later_.empty() ? std::nullopt : std::optional(later_.begin()->first);
  }

 private:
  std::set<std::uint64_t> ranks_;
  std::multimap<Time, std::uint64_t> later_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> asked_;
};

}  // namespace meshbus
