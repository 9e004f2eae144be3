#pragma once

#include <algorithm>
#include <chrono>

#include "wire/forward.h"
#include "wire/ranks_generated.h"

namespace meshbus::host {

/// Judges whether the heartbeats of a mesh proc come in time (spec 8.7): it is well, slow, or
/// frozen. Pure: it holds no clock, socket or timer.
///
/// Silence alone blames nobody: the broker on the way may be the one that is stopped. So a proc is
/// only blamed for a silence during which the way was seen to be clear: something else, asked when
/// the proc was overdue, has come by the same way.
///
/// A frozen proc is slow when it answers again, and a slow one is well after some heartbeats in
/// time: a proc whose trouble comes and goes is told as slow, not as well and frozen by turns.
class FailureDetector {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;
  struct Limits {
    Duration late;    ///< A heartbeat that comes after a longer silence is late.
    Duration frozen;  ///< After so much silence it is frozen.
  };
  /// After so many heartbeats in time, one after the other, a slow proc is well.
  static constexpr int kRecovery = 2;

  /// For a proc with a heartbeat every `heartbeat`, which itself waits for its agent for `away`:
  /// half an interval late is late.
  static Limits limits_of(std::chrono::milliseconds heartbeat, std::chrono::milliseconds away);

  FailureDetector(Limits limits, Time now) : limits_(limits), heard_(now), judged_from_(now) {}

  void on_heartbeat(Time now);
  /// The way was clear: what was asked at that time was answered.
  void on_clear(Time asked);
  /// Call it now and then, after on_clear().
  void on_check(Time now);
  /// This process could not hear until now: the silence up to now does not count.
  void on_deaf(Time now) { judged_from_ = now; }

  /// Whether the silence is long enough to ask if the way is clear.
  bool is_doubtful(Time now) const;
  wire::Trouble trouble() const noexcept { return trouble_; }
  /// The silence that was found too long.
  Duration silence() const noexcept { return silence_; }

 private:
  Time start() const { return std::max(heard_, judged_from_); }

  Limits limits_;
  Time heard_;
  Time judged_from_;
  Time clear_{};
  Duration silence_{0};
  int in_time_ = 0;
  wire::Trouble trouble_ = wire::Trouble::none;
};

}  // namespace meshbus::host
