#pragma once

#include <optional>

#include "common/base/unique_fd.h"

namespace meshbus::cli {

/// The signals of a program that works beside ranks, as a descriptor. Make it before any thread
/// exists: threads made later never see these signals.
class HandSignals {
 public:
  HandSignals();
  /// Readable when a signal came.
  int fd() const noexcept { return fd_.get(); }
  /// The next one that came, if any: INT, QUIT, TERM, HUP, WINCH.
  std::optional<int> next();

 private:
  UniqueFd fd_;
};

}  // namespace meshbus::cli
