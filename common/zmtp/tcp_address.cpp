#include "common/zmtp/tcp_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <array>
#include <cstring>

namespace meshbus {
namespace {

/// The kernel asks the other end of an idle connection after this, in seconds, so often, and gives
/// up after three.
constexpr int kKeepIdle = 15;
constexpr int kKeepInterval = 5;
constexpr int kKeepCount = 3;
/// Data that nobody acknowledges for so long ends a connection.
constexpr unsigned kUserTimeoutMs = 30'000;
/// What waits in the kernel behind what is on its way.
constexpr int kNotSent = 256 * 1024;
constexpr std::size_t kNetworkSize = 8;

bool is_mapped(const in6_addr& address) {
  return IN6_IS_ADDR_V4MAPPED(&address);
}

}  // namespace

std::optional<TcpAddress> TcpAddress::of(const HostAddr& address) {
  if (address.transport() != Transport::tcp) return std::nullopt;
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  const std::string host = address.host() == "*" ? "0.0.0.0" : std::string(address.host());
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(address.port()).c_str(), &hints, &found) != 0)
    return std::nullopt;
  TcpAddress made;
  std::memcpy(&made.storage_, found->ai_addr, found->ai_addrlen);
  made.size_ = found->ai_addrlen;
  ::freeaddrinfo(found);
  return made;
}

std::optional<TcpAddress> TcpAddress::of_peer(int descriptor) {
  TcpAddress made;
  made.size_ = sizeof made.storage_;
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&made.storage_), &made.size_) != 0 ||
      (made.family() != AF_INET && made.family() != AF_INET6))
    return std::nullopt;
  return made;
}

std::optional<TcpAddress> TcpAddress::of_own(int descriptor) {
  TcpAddress made;
  made.size_ = sizeof made.storage_;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&made.storage_), &made.size_) != 0 ||
      (made.family() != AF_INET && made.family() != AF_INET6))
    return std::nullopt;
  return made;
}

std::uint16_t TcpAddress::port() const noexcept {
  // At the same place in both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
}

std::string TcpAddress::host() const {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(get(), size_, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return {};
  const std::string host = text.data();
  constexpr std::string_view kMapped = "::ffff:";
  const bool is_v4 = family() == AF_INET6 &&
                     is_mapped(reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr);
  return is_v4 && host.starts_with(kMapped) ? host.substr(kMapped.size()) : host;
}

std::string TcpAddress::network() const {
  if (family() != AF_INET6) return host();
  const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr;
  if (is_mapped(address)) return host();
  in6_addr network{};
  std::memcpy(&network, &address, kNetworkSize);
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET6, &network, text.data(), text.size());
  return std::string(text.data()) + "/64";
}

void set_tcp_options(int descriptor) noexcept {
  const auto set = [descriptor](int level, int option, auto value) {
    ::setsockopt(descriptor, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdle);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepInterval);
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepCount);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
  set(IPPROTO_TCP, TCP_NOTSENT_LOWAT, kNotSent);
}

}  // namespace meshbus
