#pragma once

#include <chrono>
#include <optional>

#include "common/base/own_pause.h"

namespace meshbus::host {

/// Permission to live that must be renewed (spec 5.4). Pure: the time is the caller's monotonic
/// clock, so steps of the wall clock do nothing.
class Lease {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// A check that is so late means that this process was stopped: renewals may still be unread, so
  /// the lease is extended instead of expired.
  static constexpr OwnPause kPause{std::chrono::milliseconds(500)};
  static constexpr std::chrono::milliseconds kFreshGrace{2000};
  /// A check in time may follow a pause that has just ended: what has come meanwhile is read within
  /// this time, and then the lease is checked again.
  static constexpr std::chrono::milliseconds kSecondCheck{100};

  /// Length 0: it never lapses.
  Lease(Time now, std::chrono::milliseconds length) : length_(length) { renew(now, length); }

  /// Counts from now. Length 0: as long as before.
  void renew(Time now, std::chrono::milliseconds length) {
    if (length.count() > 0) length_ = length;
    if (length_.count() > 0) due_ = now + length_;
    is_checked_ = false;
  }
  /// When to check; nothing: never.
  std::optional<Time> due() const noexcept { return due_; }
  /// Whether it has lapsed. The first check, and one after a pause, move due() instead.
  bool has_lapsed(Time now) {
    if (!due_ || now < *due_) return false;
    const bool was_away = kPause.was_away(*due_, now);
    if (!was_away && is_checked_) return true;
    is_checked_ = !was_away;
    due_ = now + (was_away ? kFreshGrace : kSecondCheck);
    return false;
  }
  std::chrono::milliseconds length() const noexcept { return length_; }

 private:
  std::chrono::milliseconds length_;
  std::optional<Time> due_;
  bool is_checked_ = false;
};

}  // namespace meshbus::host
