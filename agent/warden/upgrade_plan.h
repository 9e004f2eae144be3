#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/warden/end_sequence.h"

namespace meshbus::warden {

/// How an upgrade went; the words of schemas/lifecycle.fbs, UpgradeOutcome.
enum class UpgradeOutcome { none, running, done, rolled_back, failed };
const char* to_string(UpgradeOutcome outcome) noexcept;

/// In which order the roles of a host are replaced by those of another folder, and what follows
/// when one of them does not become ready: those of before are started again, the last one first.
///
/// | now                | event                      | next                                       |
/// |--------------------|----------------------------|--------------------------------------------|
/// | waiting            | kDelay is over             | the broker, new                            |
/// | a role, new        | it is ready                | the agent, new; after that: done           |
/// | a role, new        | it ends, or is too late    | the same role, old                         |
/// | a role, old        | it is ready                | the one before it, old; then: rolled_back  |
/// | a role, old        | it ends, or is too late    | failed                                     |
///
/// Pure: the time is the caller's, and it touches no process.
class UpgradePlan {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// The answer leaves within that time, before its broker and its agent end.
  static constexpr std::chrono::milliseconds kDelay{100};
  /// Mesh procs end when their broker is away for 10 s (spec 4.4): the one of before has the other
  /// half.
  static constexpr std::chrono::milliseconds kBrokerLimit{5'000};
  /// Procs do not notice that their agent is away; launchers wait longer for a host.
  static constexpr std::chrono::milliseconds kAgentLimit{10'000};

  /// False: one is running.
  bool begin(Time now);
  bool is_running() const noexcept { return outcome_ == UpgradeOutcome::running; }
  UpgradeOutcome outcome() const noexcept { return outcome_; }
  /// Which programs are to be started now: those of before?
  bool is_back() const noexcept { return is_back_; }
  /// The role that is being replaced.
  std::optional<RoleName> current() const noexcept { return current_; }
  /// Its replacement runs, and is not ready.
  bool is_started() const noexcept { return is_started_; }
  /// When waiting is over, or the replacement is too late.
  std::optional<Time> due() const noexcept { return due_; }

  /// Waiting is over: there is a current().
  void go_on();
  /// The replacement of current() runs.
  void on_started(Time now);
  /// It is ready: there is another current(), or an outcome.
  void on_ready();
  /// It has ended before, or cannot be started: current() is to be started as it was before, or
  /// there is an outcome.
  void on_trouble();

 private:
  void next();
  void end(UpgradeOutcome outcome);

  UpgradeOutcome outcome_ = UpgradeOutcome::none;
  bool is_back_ = false;
  bool is_started_ = false;
  std::optional<RoleName> current_;
  std::vector<RoleName> left_;  ///< To be replaced after current_, the next one last.
  std::vector<RoleName> done_;  ///< Replaced, the last one last.
  std::optional<Time> due_;
};

}  // namespace meshbus::warden
