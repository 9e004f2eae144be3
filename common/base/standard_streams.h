#pragma once

#include <fcntl.h>

#include <cerrno>

namespace meshbus {

/// 0, 1 and 2 stay what they mean: a descriptor that we open later must not become our stdin or
/// stdout because the caller closed his.
inline void fill_standard_streams() {
  for (int fd = 0; fd < 3; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) [[maybe_unused]]
      const int opened = ::open(
          "/dev/null",
          O_RDWR);  // NOLINT(android-cloexec-open): a standard stream, for what we execute, too
  }
}

}  // namespace meshbus
