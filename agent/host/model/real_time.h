#pragma once

#include <cstdint>
#include <ctime>

#include "common/base/clock_ns.h"

namespace meshbus::host {

/// Nanoseconds since 1970 UTC.
inline std::int64_t now_ns() {
  return clock_ns(CLOCK_REALTIME);
}

}  // namespace meshbus::host
