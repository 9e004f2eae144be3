#pragma once

#include <string>

#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus {

/// What a host says of itself when it is ready: its ready line (docs/guide/operations.md). A plain
/// value.
struct HostAnnouncement {
  /// Errors: malformed_message: what the host says instead, or that the line is not understood.
  static Result<HostAnnouncement> parse(const std::string& line);

  HostAddr host;
  std::string containment;
  std::string run_dir;
};

}  // namespace meshbus
