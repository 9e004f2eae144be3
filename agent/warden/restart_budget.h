#pragma once

#include <chrono>
#include <cstddef>
#include <deque>

namespace meshbus::warden {

/// How often a role may be started again: so many times within a window. Pure: the time is the caller's.
class RestartBudget {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t allowed = 5;
  static constexpr std::chrono::seconds window{60};

  /// Takes one restart now; false when there is none left.
  bool take(Time now) {
    while (!taken_.empty() && now - taken_.front() > window) taken_.pop_front();
    if (taken_.size() >= allowed) return false;
    taken_.push_back(now);
    return true;
  }
  /// How many were taken within the window.
  std::size_t used() const noexcept { return taken_.size(); }

 private:
  std::deque<Time> taken_;
};

}  // namespace meshbus::warden
