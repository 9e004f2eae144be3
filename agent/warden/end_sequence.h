#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

namespace meshbus::warden {

/// The roles that a warden starts.
enum class RoleName { keeper, broker, agent };
inline constexpr std::size_t kRoleCount = 3;

/// The steps of a host's life. From `stopping_agent` on they only go down:
///
/// | phase          | asked  | message | limit         | its exit, or absence, leads to        |
/// |----------------|--------|---------|---------------|---------------------------------------|
/// | starting       | -      | -       | 20 s          | (the start has failed) sweeping       |
/// | running        | -      | -       | -             | (a restart, or one of the next four)  |
/// | stopping_agent | agent  | stop MS | grace + slack | sweeping                              |
/// | sweeping       | keeper | sweep   | 2 s           | ending_agent                          |
/// | ending_agent   | agent  | stop 0  | 0.5 s         | ending_broker                         |
/// | ending_broker  | broker | stop 0  | 0.5 s         | ended                                 |
/// | ended          | -      | -       | -             | -                                     |
///
/// A role that misses its limit gets SIGKILL; one that is still there a second later is given up.
enum class Phase {
  starting,
  running,
  stopping_agent,
  sweeping,
  ending_agent,
  ending_broker,
  ended
};

/// The way in which a host ends: which role is asked for what, and for how long it is waited for.
/// Pure: the time is the caller's, and it touches no process.
class EndSequence {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Alive = std::array<bool, kRoleCount>;  ///< By RoleName.

  static constexpr std::chrono::seconds kStartLimit{20};
  /// The grace when the launcher is gone: all of the end takes less than 2 s.
  static constexpr std::chrono::milliseconds kLostLauncherGrace{800};

  /// What a role is sent.
  struct Request {
    RoleName role;
    std::string message;
  };
  /// What to do about a missed limit.
  enum class Overdue {
    nothing,       ///< There is no such limit now.
    start,         ///< The host did not come up in time.
    kill,          ///< Kill waited_for().
    kill_quietly,  ///< The same; it was given no time at all, so there is nothing to say.
    give_up,       ///< waited_for() does not die: go on without it.
  };

  Phase phase() const noexcept { return phase_; }
  /// When on_deadline() is due.
  std::optional<Time> deadline() const noexcept { return deadline_; }
  /// The role that the deadline is about, on the way down.
  RoleName waited_for() const noexcept { return waited_for_; }
  std::chrono::milliseconds grace() const noexcept { return grace_; }

  /// The roles are being started.
  void start(Time now) { deadline_ = now + kStartLimit; }
  /// All roles are ready.
  void run();
  /// Begins the way down; `grace` is what the procs get between SIGTERM and SIGKILL.
  std::optional<Request> stop(std::chrono::milliseconds grace, Time now, const Alive& alive);
  /// Goes to that phase, or past it as far as the roles to ask are dead. Returns what to send.
  std::optional<Request> enter(Phase phase, Time now, const Alive& alive);
  /// Where the exit of a role leads in this phase; the same phase: nowhere.
  Phase after_exit(RoleName role) const noexcept;
  /// Call when deadline() has passed.
  Overdue on_deadline(Time now, const Alive& alive);

 private:
  Phase phase_ = Phase::starting;
  std::optional<Time> deadline_;
  RoleName waited_for_ = RoleName::keeper;
  bool is_waiting_ = false;
  bool has_killed_ = false;
  std::chrono::milliseconds grace_{0};
};

}  // namespace meshbus::warden
