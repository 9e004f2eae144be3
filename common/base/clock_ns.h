#pragma once

#include <time.h>

#include <cstdint>

namespace meshbus {

/// The time of a POSIX clock (CLOCK_REALTIME, CLOCK_MONOTONIC) in nanoseconds. Safe between fork
/// and exec.
inline std::int64_t clock_ns(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace meshbus
