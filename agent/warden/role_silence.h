#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include <sys/types.h>

namespace meshbus::warden {

/// What a look found of one thread.
struct ThreadLook {
  pid_t tid = 0;
  char state = '?';                 ///< The letter of /proc/PID/stat.
  std::chrono::nanoseconds ran{0};  ///< On a CPU, since its start.
  /// For a CPU, since its start. A wait counts when it is over.
  std::chrono::nanoseconds waited{0};
};

/// What a look at a role says of its silence (spec 4.7): only what is frozen is killed.
enum class Silence {
  brief,             ///< Shorter than the limit.
  ended,             ///< The role is not there any more: its exit is on its way.
  waits_for_device,  ///< State D: a kill would not help, and it may wake.
  waits_for_cpu,     ///< It wants to run and may not: slow, not dead.
  stopped,           ///< Frozen: by SIGSTOP or a debugger.
  stuck,             ///< Frozen: it could have answered.
};

/// How long a role has been silent although it could have spoken. Waits for a CPU and for devices
/// do not count. A wait that goes on is in none of the kernel's sums: a thread that is runnable (R)
/// and has not run since the last look is one that waits. Pure: it holds no clock and no process.
class RoleSilence {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// The role has spoken, or gets a fresh grace.
  void start_anew(Time now);
  /// Judges a look. `threads`: its main thread first, which is the one that answers; empty when
  /// there is no such process. The first look of all counts for nothing, because it has none to
  /// compare with. `limit`: of the silence that counts.
  Silence on_look(Time now, std::vector<ThreadLook> threads, std::chrono::nanoseconds limit);
  /// Since it last spoke, waits included.
  std::chrono::nanoseconds length(Time now) const { return now - began_; }

 private:
  /// What a thread had for its work within a span, and what kept it from the rest.
  struct Share {
    std::chrono::nanoseconds had;
    Silence kept_by;
  };
  Share share_of(const ThreadLook& thread, std::chrono::nanoseconds span) const;
  void add(std::chrono::nanoseconds span, const std::vector<ThreadLook>& threads);

  Time began_{};
  Time told_{};  // the start of the span after which a wait is told again
  std::optional<Time> looked_;
  std::vector<ThreadLook> before_;  // as the last look found them
  std::chrono::nanoseconds counted_{0};
  std::chrono::nanoseconds by_cpu_{0};
  std::chrono::nanoseconds by_device_{0};
};

}  // namespace meshbus::warden
