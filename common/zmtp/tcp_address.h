#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

#include "meshbus/address.h"

namespace meshbus {

/// A tcp address as the kernel takes and gives it.
class TcpAddress {
 public:
  /// Takes a literal address, or that of all interfaces. Nothing: its host is a name.
  static std::optional<TcpAddress> of(const HostAddr& address);
  /// The address of the other end of a connection. Nothing: it is not tcp, or there is none.
  static std::optional<TcpAddress> of_peer(int descriptor);
  /// The address of this end.
  static std::optional<TcpAddress> of_own(int descriptor);

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const noexcept { return size_; }
  int family() const noexcept { return storage_.ss_family; }
  std::uint16_t port() const noexcept;
  /// "10.0.0.1", "fe80::1%eth0"; an IPv4 address that came over IPv6 as itself.
  std::string host() const;
  /// What one remote may have many of counts as one: of an IPv6 address its network (/64).
  std::string network() const;

 private:
  TcpAddress() = default;
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

/// A tcp socket that does not block and sends without delay. The kernel ends its connection when
/// the other end has not acknowledged anything for a while, and holds back little of what is sent,
/// so that control can overtake data in our own queues.
void set_tcp_options(int descriptor) noexcept;

}  // namespace meshbus
