#pragma once

#include <string>

namespace meshbus::host {

/// Why the keeper of a host is gone, and all procs of the host with it.
struct KeeperLoss {
  enum class Why {
    died,
    frozen,       ///< It was frozen, so the warden ended it.
    warden_died,  ///< It ended because the warden had died.
  };
  Why why = Why::died;
  /// For the reader; may be empty. For warden_died: the rank of a mesh that the warden was or ran
  /// in.
  std::string detail = {};
};

}  // namespace meshbus::host
