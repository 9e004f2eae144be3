#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

#include "agent/proc/runtime/stop_sequence.h"

namespace meshbus::mesh_proc {

/// How far a proc is between its start and its end: what main() waits for, what any thread may ask,
/// and what the reactor's thread changes. The rules are those of StopSequence; this is the lock
/// around it. Any thread may call every function.
class ProcLife {
 public:
  using Time = StopSequence::Time;
  using Stop = StopSequence::Stop;
  /// What a caller's time is cut to, so that adding it to now cannot overflow.
  static constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);

  /// `is_watched`: the program has on_stop(), or no main() that would have to ask.
  explicit ProcLife(bool is_watched) : is_watched_(is_watched) {}
  ProcLife(const ProcLife&) = delete;
  ProcLife& operator=(const ProcLife&) = delete;

  void set_ready();
  /// Waits until the proc is Ready. False: a stop came first.
  bool wait_until_ready();
  /// Waits until a stop was carried out, or the proc is cut off.
  void wait_until_drained();
  /// main() has returned `code`, or is not called any more. Returns the exit code.
  int end_main(int code);

  // What ends it; see StopSequence.
  bool limit(Time end);
  Time last_moment() const;
  /// The request that decides; there has to be one.
  Stop stop() const;
  bool begin_stop(Stop stop);
  void begin_exit();
  bool cut(Stop stop);
  /// One of the two parts that a stop waits for is done.
  void note_drained();
  std::string describe_limit() const;

  int exit_code() const noexcept { return exit_code_; }
  /// Nothing comes from the bus any more, and nothing leaves.
  bool is_cut() const noexcept { return is_cut_; }
  /// What is_cut() returns, for parts that ask it for each message.
  const std::atomic<bool>& cut_flag() const noexcept { return is_cut_; }

  // For the program, which would notice a stop when it asks.
  bool stop_requested() noexcept;
  /// Waits `at_most` so long. Whether a stop was asked for.
  bool wait_for_stop(std::chrono::milliseconds at_most);
  /// Whether main() would notice a stop: see ProcProgram::on_stop.
  bool is_watched() const noexcept { return is_watched_; }

 private:
  std::atomic<int> exit_code_{1};
  std::atomic<bool> is_cut_{false};
  std::atomic<bool> is_watched_;
  std::atomic<bool> is_stopping_{false};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ready_ = false;  // guarded by mutex_, like what follows
  StopSequence stops_;
};

}  // namespace meshbus::mesh_proc
