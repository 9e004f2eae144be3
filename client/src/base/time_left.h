#pragma once

#include <algorithm>
#include <chrono>

namespace meshbus {

/// Rounded up; never negative.
inline std::chrono::milliseconds left_until(std::chrono::steady_clock::time_point end) {
  return std::max(std::chrono::milliseconds(0), std::chrono::ceil<std::chrono::milliseconds>(
                                                    end - std::chrono::steady_clock::now()));
}

}  // namespace meshbus
