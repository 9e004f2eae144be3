#pragma once

#include <cstdint>

#include "meshbus/result.h"

namespace meshbus::hands {

/// The sets of capabilities of a process, as /proc/PID/status has them: bit N is capability N.
struct Capabilities {
  std::uint64_t inheritable = 0;
  std::uint64_t permitted = 0;
  std::uint64_t effective = 0;
  std::uint64_t bounding = 0;
  std::uint64_t ambient = 0;

  bool operator==(const Capabilities&) const = default;
};

/// Takes out of this process's bounding and ambient sets what those of `wanted` do not have. Call
/// it before this process becomes another user, which ends the right to. Errors: io_error.
Result<void> lower_bounds(const Capabilities& wanted);
/// Takes out of the other three sets what those of `wanted` do not have. Errors: io_error.
Result<void> lower_capabilities(const Capabilities& wanted);

}  // namespace meshbus::hands
