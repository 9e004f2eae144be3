#pragma once

#include <chrono>

namespace meshbus::keeper {

/// When the keeper looks for orphans of dead procs, and reaps those of living ones. A look costs
/// with the number of children: with nothing found it takes at most a fifth of the keeper's time;
/// with orphans it follows their ends at once, and otherwise ever more slowly (state D).
/// Pure: the time is the caller's.
class OrphanPace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  static constexpr Duration kReapPause = std::chrono::milliseconds(50);
  /// With spawns to come: several dead procs for one look.
  static constexpr Duration kBusyPause = std::chrono::milliseconds(5);
  static constexpr Duration kFirstPause = std::chrono::microseconds(200);
  static constexpr Duration kLastPause = std::chrono::milliseconds(50);
  static constexpr Duration kShort = std::chrono::microseconds(200);

  /// A child has ended: some look is due soon.
  void on_child_ended();
  /// A look for orphans of dead procs took from `begin` to `end`. `is_clean`: it found none.
  void after_look(Time begin, Time end, bool is_clean, bool has_reaped, bool is_spawning);
  /// Orphans of living procs were reaped. `has_dead_child`: not all dead children were looked at.
  void after_reap(Time now, bool has_dead_child, bool has_more);

  Time next_look() const noexcept { return next_look_; }
  /// Whether the last look took so little time that ends may wait for the next one.
  bool is_short() const noexcept { return took_ <= kShort; }
  Time next_reap() const noexcept { return next_reap_; }
  /// Whether there may be a dead child that nobody has reaped.
  bool has_dead_child() const noexcept { return has_dead_child_; }

 private:
  Time next_look_{};
  Time not_before_{};
  Duration pause_{};
  Duration took_{};
  Time next_reap_{};
  bool has_dead_child_ = false;
};

}  // namespace meshbus::keeper
