#pragma once

#include <chrono>
#include <string>

namespace meshbus {

/// "30s", "1500ms": the texts of statuses and errors. Not a public header.
inline std::string duration_text(std::chrono::milliseconds duration) {
  const auto count = duration.count();
  return count % 1000 == 0 ? std::to_string(count / 1000) + "s" : std::to_string(count) + "ms";
}

}  // namespace meshbus
