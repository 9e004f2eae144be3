#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>

namespace meshbus::warden {

/// When a role that has ended is started again. Pure: the time is the caller's.
class RestartPolicy {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Only ends within this span count.
  static constexpr std::chrono::seconds kWindow{60};
  /// Mesh procs end when their broker is not back within 10 s (spec 4.4). The
  /// other 5 s are for its start.
  static constexpr std::chrono::milliseconds kLongestDelay{5'000};
  static constexpr std::chrono::milliseconds kFirstDelay{50};
  static constexpr std::size_t kAgentRestarts = 5;

  struct Limits {
    /// Restarts within the window; nothing: without end, each one later than the one before.
    std::optional<std::size_t> most;
  };
  explicit RestartPolicy(Limits limits) : limits_(limits) {}

  /// The delay before the next start, or nothing when the role must be given up. The first
  /// restart within the window comes at once.
  std::optional<std::chrono::milliseconds> on_exit(Time now);
  /// Whether a role that ends now is started again. Changes nothing.
  bool may_restart(Time now) const;
  /// How many restarts were granted within the window, as of the last on_exit().
  std::size_t used() const noexcept { return granted_.size(); }
  std::optional<std::size_t> most() const noexcept { return limits_.most; }

 private:
  Limits limits_;
  std::deque<Time> granted_;
};

}  // namespace meshbus::warden
