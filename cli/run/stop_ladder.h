#pragma once

#include <chrono>
#include <optional>

namespace meshbus::cli {

/// How far the stop of a run has got, and when it goes on: in order, then at once, then the run
/// leaves. Pure: it holds no clock, socket or thread.
class StopLadder {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Limit = std::chrono::milliseconds;
  enum class Step { none, gracefully, at_once };

  /// What a stop may take beyond its grace before SIGKILL is ordered, and what that may take before
  /// the run asks which ranks are left.
  static constexpr Limit kSlack{5000};
  /// A standing host notices within 30 s (frozen.limit) that a role of its own is frozen, and then
  /// takes the order: so long a stop waits for a host that does not answer.
  static constexpr Limit kSilenceLimit{40'000};

  Step step() const noexcept { return step_; }
  bool has_begun() const noexcept { return step_ != Step::none; }
  /// Returns whether an order is to be sent: not when the ranks were told to end at once already.
  bool begin(bool at_once, Limit grace, Time now);
  /// When pass() has something to say; nothing: no stop is under way.
  std::optional<Time> due() const noexcept { return due_; }
  /// Whether the present step has taken its time. Once for each step.
  bool pass(Time now);
  /// Ranks are left. Whether to wait for hosts that do not answer, and then send the order again.
  bool wait_for_silent(Time now);
  /// Waits for ranks that end of themselves.
  void wait_on(Time now) { due_ = now + kSlack; }
  /// The user does not wait any longer.
  void hurry(Time now);

 private:
  Step step_ = Step::none;
  std::optional<Time> due_;
  Time silent_until_{};
};

}  // namespace meshbus::cli
