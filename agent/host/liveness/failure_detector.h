#pragma once

#include <algorithm>
#include <chrono>

#include "wire/forward.h"
#include "wire/ranks_generated.h"

namespace meshbus::host {

/// Whether a mesh proc gives its signs of life in time (spec 8.7): well, slow, or frozen. Pure: it
/// holds no clock, socket or timer.
///
/// Silence alone blames nobody: the broker on the way may be the one that is stopped. So a proc is
/// only blamed for a silence during which the way was seen to be clear: something else, asked when
/// the proc was overdue, has come by the same way.
///
/// Who was frozen is slow when it answers again, and who is slow is well after some signs in time:
/// what comes and goes is told as slow, not as well and ill by turns.
class FailureDetector {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;
  struct Limits {
    Duration late;    ///< A sign that comes after a longer silence is late.
    Duration frozen;  ///< After so much silence it is frozen.
  };
  /// So many signs in time, one after the other, end being slow.
  static constexpr int recovery = 2;

  /// Of a proc that gives a sign every `heartbeat`, and itself waits for its agent for `away`: half
  /// an interval late is late.
  static Limits limits_of(std::chrono::milliseconds heartbeat, std::chrono::milliseconds away);

  FailureDetector(Limits limits, Time now) : limits_(limits), heard_(now), judged_from_(now) {}

  void on_sign(Time now);
  /// The way was clear: what was asked at that time was answered.
  void on_clear(Time asked);
  /// To be called now and then.
  void on_look(Time now);
  /// Who listens could not hear until now: that silence does not count.
  void on_deaf(Time now) { judged_from_ = now; }

  /// Whether it is to be found out if the way is clear.
  bool is_doubtful(Time now) const;
  wire::Trouble trouble() const noexcept { return trouble_; }
  /// That was found too long.
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
