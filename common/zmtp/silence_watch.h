#pragma once

#include <chrono>

namespace meshbus {

/// When to ask the other end of a connection for a sign of life, and when to take it for lost.
/// Pure: the time comes from the caller.
class SilenceWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::milliseconds;
  enum class Due {
    nothing,
    /// Ask it for a sign of life.
    ping,
    /// Nothing was heard for too long.
    lost,
  };
  SilenceWatch(Duration limit, Time now) noexcept : limit_(limit), heard_(now), looked_(now) {}

  void hear(Time now) noexcept { heard_ = now; }
  /// To be called every third of the limit, or more often. A call that is much later means that
  /// this process was stopped: the other end gets a fresh grace. `other_limit`: a shorter limit
  /// that the other end asked for; zero for none.
  Due look(Time now, Duration other_limit) noexcept;

 private:
  Duration limit_;
  Time heard_;
  Time looked_;
  Time pinged_{};
};

}  // namespace meshbus
