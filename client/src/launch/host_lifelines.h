#pragma once

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>

namespace meshbus {

/// The lifelines of this process's hosts. A child made by fork() without exec must not hold them: the hosts are to end with this process,
/// not with the last of its copies.
class HostLifelines {
 public:
  void add(int fd) {
    static const int registered = ::pthread_atfork(nullptr, nullptr, [] { all().close_in_child(); });
    (void)registered;
    for (auto& slot : slots_) {
      int empty = 0;
      if (slot.compare_exchange_strong(empty, fd)) return;
    }
  }
  void remove(int fd) {
    for (auto& slot : slots_) {
      int mine = fd;
      if (slot.compare_exchange_strong(mine, 0)) return;
    }
  }
  static HostLifelines& all() {
    static HostLifelines instance;
    return instance;
  }

 private:
  void close_in_child() {
    // Nothing else of these hosts is touched in the child: their owners there refuse, and leak.
    for (auto& slot : slots_) {
      if (const int fd = slot.exchange(0); fd != 0) ::close(fd);
    }
  }
  /// 0 = free: descriptor 0 is never one, since they are moved up.
  std::array<std::atomic<int>, 4096> slots_{};
};

}  // namespace meshbus
