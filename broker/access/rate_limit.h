#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace meshbus {

/// A token bucket (the virtual scheduling of GCRA): something may happen so often a second, and
/// after a pause `at_once` times in a row. Its state is one time for each that it applies to. Pure:
/// the time comes from the caller.
class RateLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// 0 a second = no limit. At most 10^9 a second.
  RateLimit(std::uint64_t per_second, std::uint64_t at_once)
      : interval_(per_second == 0
                      ? 0
                      : std::max<std::int64_t>(
                            1, std::chrono::nanoseconds(std::chrono::seconds(1)).count() /
                                   static_cast<std::int64_t>(per_second))),
        at_once_(interval_ * static_cast<std::int64_t>(at_once)) {}

  /// Whether it may happen once more. `rested` is the state: when `at_once` times in a row are
  /// possible again. Begins as Time{}.
  bool take(Time& rested, Time now) const {
    const Time next = std::max(rested, now) + interval_;
    if (next - now > at_once_) return false;
    rested = next;
    return true;
  }

 private:
  std::chrono::nanoseconds interval_;
  std::chrono::nanoseconds at_once_;
};

}  // namespace meshbus
