#pragma once

#include "common/base/taken_signals.h"

namespace meshbus::cli {

/// The signals that `run` lives by.
class JobSignals : public TakenSignals {
 public:
  JobSignals();
  /// From now on they do what they do to any program. What came after the end of the ranks came too
  /// late to change anything, and is forgotten.
  void release();
  /// What SIGTSTP means: this process stops until SIGCONT. The ranks have their own sessions, where
  /// the terminal's Ctrl-Z does not reach them and the kernel discards SIGTSTP, so they get
  /// SIGSTOP; see run_job.cpp.
  static void stop_self();
};

}  // namespace meshbus::cli
