#pragma once

#include <cerrno>
#include <cstring>
#include <string>

namespace meshbus {

/// "open: No such file or directory": what errno says of the call that has just failed.
inline std::string os_error(const std::string& call) {
  return call + ": " + std::strerror(errno);
}

}  // namespace meshbus
