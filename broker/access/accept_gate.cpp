#include "broker/access/accept_gate.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "broker/access/rate_limit.h"
#include "broker/access/recent_set.h"

namespace {

using meshbus::RateLimit;

constexpr rlim_t kMostReserved = 256;
constexpr std::uint64_t kSecondsAtOnce = 5;
/// Beyond so many addresses nobody can tell a crowd from one that has many.
constexpr std::size_t kAddressesRemembered = 4096;

/// Where a connection over tcp comes from, without its port; of an IPv6 address the network.
struct Origin {
  int family = AF_UNSPEC;
  in6_addr address{};

  static Origin of(const sockaddr* address) {
    Origin origin;
    if (address == nullptr) return origin;
    if (address->sa_family == AF_INET) {
      sockaddr_in in{};
      std::memcpy(&in, address, sizeof in);
      origin.family = AF_INET;
      std::memcpy(&origin.address, &in.sin_addr, sizeof in.sin_addr);
    } else if (address->sa_family == AF_INET6) {
      sockaddr_in6 in{};
      std::memcpy(&in, address, sizeof in);
      origin.family = AF_INET6;
      // A listener for both kinds writes IPv4 addresses at the end of an IPv6 one: these are not of
      // one network.
      std::memcpy(&origin.address, &in.sin6_addr,
                  IN6_IS_ADDR_V4MAPPED(&in.sin6_addr) ? sizeof in.sin6_addr : 8);
    }
    return origin;
  }
  std::string to_string() const {
    std::array<char, INET6_ADDRSTRLEN> text{};
    ::inet_ntop(family, &address, text.data(), text.size());
    return text.data();
  }
  std::string key() const {
    return std::string(reinterpret_cast<const char*>(&address), sizeof address);
  }
};

class Gate {
 public:
  void limit(std::uint64_t per_second) {
    const std::lock_guard lock(mutex_);
    limit_ = RateLimit(per_second, per_second * kSecondsAtOnce);
  }
  bool lets_in(const Origin& origin) {
    if (origin.family == AF_UNSPEC) return true;
    const std::lock_guard lock(mutex_);
    const auto* known = rested_.find(origin.key());
    RateLimit::Time rested = known == nullptr ? RateLimit::Time{} : *known;
    if (!limit_.take(rested, std::chrono::steady_clock::now())) {
      ++turned_away_.for_rate;
      turned_away_.last = origin.to_string();
      return false;
    }
    rested_.add(origin.key(), rested);
    return true;
  }
  void no_descriptor() {
    const std::lock_guard lock(mutex_);
    ++turned_away_.for_descriptors;
  }
  meshbus::TurnedAway turned_away() {
    const std::lock_guard lock(mutex_);
    return turned_away_;
  }

 private:
  std::mutex mutex_;
  RateLimit limit_{0, 0};
  meshbus::RecentSet<std::string, RateLimit::Time> rested_{kAddressesRemembered};
  meshbus::TurnedAway turned_away_;
};

Gate& gate() {
  static Gate gate;
  return gate;
}

int refuse() noexcept {
  errno = ECONNABORTED;  // "went away before it was accepted", which every caller of accept() must
                         // live with
  return -1;
}

}  // namespace

namespace meshbus {

void limit_connections(std::uint64_t per_second) {
  gate().limit(per_second);
}

TurnedAway turned_away() {
  return gate().turned_away();
}

}  // namespace meshbus

/// Takes the place of the C library's in this program.
extern "C" int accept4(int socket, sockaddr* address, socklen_t* size, int flags) {
  const auto fd = static_cast<int>(::syscall(SYS_accept4, socket, address, size, flags));
  if (fd < 0) {
    if (errno != EMFILE && errno != ENFILE) return fd;
    // The connection stays in the backlog then, and accept is tried again and again: the last
    // resort, not the rule.
    gate().no_descriptor();
    return refuse();
  }
  rlimit limit{};
  // The kernel gives out the lowest number that is free.
  const bool is_last =
      ::getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
      static_cast<rlim_t>(fd) >= limit.rlim_cur - std::min(kMostReserved, limit.rlim_cur / 4);
  if (is_last) gate().no_descriptor();
  if (!is_last && gate().lets_in(Origin::of(size == nullptr || *size == 0 ? nullptr : address)))
    return fd;
  ::close(fd);
  return refuse();
}
