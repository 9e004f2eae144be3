#pragma once

#include <sys/types.h>

#include <chrono>

#include "agent/stacks/registers.h"
#include "meshbus/result.h"

namespace meshbus::stacks {

/// A thread of another process that stands still as long as this exists. Its signals wait; a stop
/// by SIGSTOP stays one.
class StoppedThread {
 public:
  /// Waits so long at most until it stands; it goes on meanwhile. Errors: refused (another user's,
  /// one that forbids it, one that a debugger has), not_exist (it has ended), timeout (it waits for
  /// a device, or for a CPU).
  static Result<StoppedThread> stop(pid_t tid, std::chrono::nanoseconds patience);
  StoppedThread(StoppedThread&& other) noexcept;
  StoppedThread& operator=(StoppedThread&&) = delete;
  ~StoppedThread();

  /// Errors: io_error.
  Result<Registers> registers() const;

 private:
  StoppedThread(pid_t tid, int signal) : tid_(tid), signal_(signal) {}

  pid_t tid_;
  /// What it was about to get when it was stopped; it gets that when it goes on. 0: nothing.
  int signal_;
};

}  // namespace meshbus::stacks
