#pragma once

#include <csignal>
#include <optional>

#include "common/base/unique_fd.h"

namespace meshbus::cli {

/// The signals that `run` lives by, as a descriptor. Make it before any thread exists: threads made
/// later never see these signals.
class JobSignals {
 public:
  JobSignals();
  /// Readable when a signal came.
  int fd() const noexcept { return fd_.get(); }
  /// The next signal that came, if any.
  std::optional<int> next();
  /// From now on they do what they do to any program.
  void release();
  /// What SIGTSTP means: this process stops until SIGCONT. The ranks have their own sessions, where
  /// the terminal's Ctrl-Z does not reach them and the kernel discards SIGTSTP, so they get
  /// SIGSTOP; see run_job.cpp.
  static void stop_self();

 private:
  UniqueFd fd_;
};

}  // namespace meshbus::cli
