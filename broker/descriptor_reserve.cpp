#include "broker/descriptor_reserve.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

namespace {

constexpr rlim_t kMostReserved = 256;
std::atomic<std::uint64_t> refused{0};

int refuse() noexcept {
  refused.fetch_add(1, std::memory_order_relaxed);
  errno = ECONNABORTED;  // "went away before it was accepted", which every caller of accept() must live with
  return -1;
}

}  // namespace

namespace meshbus {

std::uint64_t connections_refused() noexcept {
  return refused.load(std::memory_order_relaxed);
}

}  // namespace meshbus

/// Takes the place of the C library's in this program.
extern "C" int accept4(int socket, sockaddr* address, socklen_t* size, int flags) {
  const auto fd = static_cast<int>(::syscall(SYS_accept4, socket, address, size, flags));
  // The connection stays in the backlog then, and accept is tried again and again: the last resort, not the rule.
  if (fd < 0) return errno == EMFILE || errno == ENFILE ? refuse() : fd;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return fd;
  // The kernel gives out the lowest number that is free.
  if (static_cast<rlim_t>(fd) < limit.rlim_cur - std::min(kMostReserved, limit.rlim_cur / 4)) return fd;
  ::close(fd);
  return refuse();
}
