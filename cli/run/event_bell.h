#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "common/base/unique_fd.h"

namespace meshbus::cli {

/// Wakes the main thread of a run: its descriptor is readable when something is new. Any thread may
/// ring it.
class EventBell {
 public:
  EventBell() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  int fd() const noexcept { return fd_.get(); }
  void ring() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(fd_.get(), &one, sizeof one);
  }
  void clear() const {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto n = ::read(fd_.get(), &count, sizeof count);
  }

 private:
  UniqueFd fd_;
};

}  // namespace meshbus::cli
