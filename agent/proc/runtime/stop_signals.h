#pragma once

#include <optional>

#include "common/base/unique_fd.h"

namespace meshbus::mesh_proc {

/// Turns SIGTERM and SIGINT into a readable descriptor. By handlers and not by blocking the
/// signals, because a mask would be inherited by what the program executes. A signal that the
/// program handles or ignores already is left to it. In a child of fork() the signals do what they
/// do by default. One per process.
class StopSignals {
 public:
  /// Installs the handlers. Throws std::system_error when there is no descriptor to be had.
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Readable when a signal came.
  int fd() const noexcept { return event_.get(); }
  /// The number of the first signal that came since the last take().
  std::optional<int> take();

 private:
  UniqueFd event_;
};

}  // namespace meshbus::mesh_proc
