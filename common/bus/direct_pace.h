#pragma once

#include <chrono>
#include <cstddef>

namespace meshbus {

/// When the receiver of a direct path reads: not while its program has enough to do, and for a
/// while after a large message although nothing has come.
class DirectPace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A receiver whose program has so much to do waits with reading. It goes on when the program has
  /// taken nothing for kStuck: it may wait for what is to be read.
  static constexpr std::size_t kMostBacklog = 8 * 1024 * 1024;
  static constexpr std::chrono::milliseconds kStuck{50};
  /// A receiver of large messages looks for the next one so long before it sleeps, if it has more
  /// than one CPU: to wake it on another one takes its sender 10 to 30 us.
  static constexpr std::chrono::microseconds kLinger{20};

  explicit DirectPace(bool may_linger) : may_linger_(may_linger) {}

  /// Whether a program with so many bytes to do has enough; must_wait() then.
  bool has_enough(std::size_t backlog) noexcept {
    if (backlog > kMostBacklog) return true;
    least_backlog_ = 0;
    return false;
  }
  bool must_wait(std::size_t backlog, Time now) {
    if (least_backlog_ == 0 || backlog < least_backlog_) {
      least_backlog_ = backlog;
      least_since_ = now;
    }
    return now - least_since_ < kStuck;
  }
  /// Whether to look again, after a look that brought no more. `has_large`: it brought something
  /// large.
  bool lingers(bool has_large) {
    if (!may_linger_ || (!has_large && linger_until_ == Time{})) return false;
    const auto now = Time::clock::now();
    if (has_large) linger_until_ = now + kLinger;
    if (now < linger_until_) return true;
    linger_until_ = {};
    return false;
  }

 private:
  const bool may_linger_;
  /// The least backlog since the program had enough to do, and since when it is that.
  std::size_t least_backlog_ = 0;
  Time least_since_{};
  Time linger_until_{};
};

}  // namespace meshbus
