#pragma once

#include <chrono>
#include <optional>

namespace meshbus::mesh_proc {

/// Whether the host agent has stayed away too long. Pure: it holds no clock, socket or timer.
///
/// Away counts from the first sign of it (a question that is not answered, a lost connection) to
/// the next answer, not from the last answer: an agent that is quiet between two questions is not
/// away.
class AgentTimeout {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  /// Nobody has answered yet, so away counts from now on.
  AgentTimeout(Duration limit, Time now) : limit_(limit), since_(now) {}

  /// A question was sent, or the connection was lost.
  void on_silence(Time now) {
    if (!since_) since_ = now;
  }
  void on_answer() { since_.reset(); }

  /// For the owner's timer that was to fire at `due`: whether it is over. When the timer is late,
  /// this process was away (stopped, starved): that time does not count, and when it was long the
  /// others get a fresh grace, because their answers may still lie unread.
  bool is_over(Time now, Time due);

  bool is_away() const noexcept { return since_.has_value(); }
  /// When it is over if nothing is heard; only while away.
  Time end() const { return *since_ + limit_; }
  Duration limit() const noexcept { return limit_; }
  void set_limit(Duration limit) { limit_ = limit; }

 private:
  Duration limit_;
  std::optional<Time> since_;
};

}  // namespace meshbus::mesh_proc
