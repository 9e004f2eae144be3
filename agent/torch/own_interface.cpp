#include "agent/torch/own_interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <vector>

#include "common/base/unique_fd.h"

namespace meshbus::torch {
namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

std::vector<Address> resolve(std::string_view host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (host.empty() || ::getaddrinfo(std::string(host).c_str(), "9", &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  std::vector<Address> addresses;
  for (const auto* one = found; one != nullptr; one = one->ai_next) {
    Address address;
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    address.size = one->ai_addrlen;
    addresses.push_back(address);
  }
  return addresses;
}

bool is_same(const sockaddr& a, const sockaddr& b) {
  if (a.sa_family != b.sa_family) return false;
  if (a.sa_family == AF_INET)
    return reinterpret_cast<const sockaddr_in&>(a).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(b).sin_addr.s_addr;
  return a.sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6&>(a).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(b).sin6_addr, sizeof(in6_addr)) == 0;
}

/// Empty for the loopback interface.
std::string interface_with(const sockaddr& address) {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(found, ::freeifaddrs);
  for (const auto* one = found; one != nullptr; one = one->ifa_next) {
    const bool is_loopback = (one->ifa_flags & IFF_LOOPBACK) != 0;
    if (one->ifa_addr != nullptr && !is_loopback && is_same(*one->ifa_addr, address))
      return one->ifa_name;
  }
  return {};
}

/// Asks the routing table; sends nothing.
std::string interface_towards(const Address& address) {
  const UniqueFd socket(::socket(address.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  Address own;
  own.size = sizeof own.storage;
  if (!socket || ::connect(socket.get(), address.get(), address.size) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own.storage), &own.size) != 0)
    return {};
  return interface_with(*own.get());
}

}  // namespace

std::string find_own_interface(std::string_view host, std::string_view master) {
  for (const auto& address : resolve(host)) {
    if (auto name = interface_with(*address.get()); !name.empty()) return name;
  }
  for (const auto& address : resolve(master)) {
    if (auto name = interface_towards(address); !name.empty()) return name;
  }
  return {};
}

}  // namespace meshbus::torch
