#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace meshbus::mesh_proc {

/// How a proc comes to its end. The first request to stop decides the exit code and the reason; a
/// later one can only make the end come sooner. Pure: it holds no clock, timer or thread.
///
///     state    | begin()              | begin_exit()         | cut()
///     ---------+----------------------+----------------------+--------
///     running  | stopping             | exiting              | cut off
///     stopping | stays: a later one   | exiting              | cut off
///     exiting  | stays: main() is over| stays                | cut off
///     cut off  | stays                | stays                | stays
class StopSequence {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Stop {
    int code = 0;
    std::string reason;
  };

  /// The proc ends at `end` at the latest. False: it was to end sooner, or then, anyway.
  bool limit(Time end);
  /// The last moment of the proc; Time::max() when nothing limits it.
  Time end() const noexcept { return end_; }

  /// A request to stop. True when it is the one that decides.
  bool begin(Stop stop);
  /// The program ends by itself.
  void begin_exit() noexcept { is_exiting_ = true; }
  /// The proc is over at once. False when it was cut off before.
  bool cut(Stop stop);

  /// The handlers that were queued when the stop came, or the actors, have come to their end.
  void part_done() noexcept { --parts_; }
  /// Both have.
  bool is_drained() const noexcept { return parts_ == 0; }

  bool is_asked() const noexcept { return stop_.has_value(); }
  /// The request that decides; only when there is one.
  const Stop& stop() const { return stop_.value(); }
  bool is_cut() const noexcept { return is_cut_; }
  /// The exit code: that of the stop, or of main() when there was none.
  int exit_code(int of_main) const noexcept { return stop_ ? stop_->code : of_main; }
  /// Why the proc is ended at end(), for people.
  std::string describe_limit() const;

 private:
  std::optional<Stop> stop_;
  Time end_ = Time::max();
  unsigned parts_ = 2;
  bool is_exiting_ = false;
  bool is_cut_ = false;
};

}  // namespace meshbus::mesh_proc
