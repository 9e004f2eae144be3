#pragma once

#include <csignal>
#include <initializer_list>
#include <optional>

#include "common/base/unique_fd.h"

namespace meshbus {

/// Signals that a program reads from a descriptor; they do nothing else to it. Make it before any
/// thread exists: threads made later never see these signals. Throws std::system_error.
class TakenSignals {
 public:
  TakenSignals(std::initializer_list<int> signals);
  /// Readable when a signal came.
  int fd() const noexcept { return fd_.get(); }
  /// The next one that came, if any.
  std::optional<int> next();
  /// From now on they do what they do to any program; those that came and were not read, too.
  void release();

 private:
  sigset_t all_;
  UniqueFd fd_;
};

}  // namespace meshbus
