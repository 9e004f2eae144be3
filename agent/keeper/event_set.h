#pragma once

#include <sys/epoll.h>

#include <cstdint>

#include "common/base/unique_fd.h"

namespace meshbus::keeper {

/// What the keeper waits for. Each descriptor goes by a number of its watcher's choice. One thread.
class EventSet {
 public:
  /// False with errno.
  bool open() {
    epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
    return static_cast<bool>(epoll_);
  }
  int fd() const noexcept { return epoll_.get(); }
  /// False with errno: out of memory, or at the user's limit of epoll watches.
  bool add(int fd, std::uint64_t source, std::uint32_t events = EPOLLIN) {
    return control(EPOLL_CTL_ADD, fd, source, events);
  }
  bool modify(int fd, std::uint64_t source, std::uint32_t events) {
    return control(EPOLL_CTL_MOD, fd, source, events);
  }
  /// Needed even before a close where another process holds a copy of the descriptor.
  void remove(int fd) { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

 private:
  bool control(int operation, int fd, std::uint64_t source, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = source;
    return ::epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
  }

  UniqueFd epoll_;
};

}  // namespace meshbus::keeper
