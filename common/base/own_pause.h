#pragma once

#include <chrono>

namespace meshbus {

/// Tells from a timer that fires late that this process itself was away: stopped, starved of CPU,
/// or moved. What others have sent meanwhile is not read yet, so silence up to now proves nothing
/// about them: give them a fresh grace before blaming them. Pure: the time is an argument.
class OwnPause {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  /// `limit`: a look that is later than due by so much or more was delayed by a pause. The usual
  /// delay of a loaded machine must be well below it, the patience with others well above it.
  constexpr explicit OwnPause(Duration limit) noexcept : limit_(limit) {}

  /// How long this process was away before a look at `now` that was due at `due`; 0: it was not.
  Duration length(Time due, Time now) const noexcept;
  bool was_away(Time due, Time now) const noexcept { return length(due, now) > Duration::zero(); }

 private:
  Duration limit_;
};

}  // namespace meshbus
