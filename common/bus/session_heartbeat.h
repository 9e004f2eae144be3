#pragma once

#include <chrono>

#include "common/loop/reactor.h"

namespace meshbus {

/// When a session tells its broker that it is alive, and when it takes the broker for lost. Pure:
/// the time is an argument.
class SessionHeartbeat {
 public:
  using Time = Reactor::Time;
  enum class Verdict { nothing, send, lost };

  /// The session is up; the broker sends a heartbeat at least this often.
  void begin(std::chrono::milliseconds interval, Time now) noexcept;
  void on_heard(Time now) noexcept { last_heard_ = now; }
  void on_sent() noexcept { has_sent_ = true; }
  /// When to call check() next.
  Time due() const noexcept { return due_; }
  Verdict check(Time now) noexcept;
  /// The silence after which the broker is lost.
  std::chrono::milliseconds limit() const noexcept { return 3 * interval_; }

 private:
  std::chrono::milliseconds interval_{5000};
  Time due_{};
  Time last_heard_{};
  bool has_sent_ = false;
};

}  // namespace meshbus
