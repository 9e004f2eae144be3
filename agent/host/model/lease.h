#pragma once

#include <chrono>
#include <optional>

namespace meshbus::host {

/// Permission to live that must be renewed (spec 5.4). Pure: the time is the caller's monotonic
/// clock, so clock steps do nothing.
class Lease {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// Whoever looks so much later than it wanted was away itself (stopped, starved): renewals may be
  /// waiting behind it.
  static constexpr std::chrono::milliseconds late_limit{500};
  static constexpr std::chrono::milliseconds fresh_grace{2000};
  /// And whoever looks in time may have been away until just now: what has come meanwhile is heard
  /// in this time.
  static constexpr std::chrono::milliseconds second_look{100};

  /// Length 0: it never lapses.
  Lease(Time now, std::chrono::milliseconds length) : length_(length) { renew(now, length); }

  /// Counts afresh from now. Length 0: as long as before.
  void renew(Time now, std::chrono::milliseconds length) {
    if (length.count() > 0) length_ = length;
    if (length_.count() > 0) due_ = now + length_;
    has_looked_ = false;
  }
  /// When to look; nothing = never.
  std::optional<Time> due() const noexcept { return due_; }
  /// Whether it has lapsed. The first look, and one that comes late, move due() instead.
  bool has_lapsed(Time now) {
    if (!due_ || now < *due_) return false;
    const bool is_late = now - *due_ >= late_limit;
    if (!is_late && has_looked_) return true;
    has_looked_ = !is_late;
    due_ = now + (is_late ? fresh_grace : second_look);
    return false;
  }
  std::chrono::milliseconds length() const noexcept { return length_; }

 private:
  std::chrono::milliseconds length_;
  std::optional<Time> due_;
  bool has_looked_ = false;
};

}  // namespace meshbus::host
