#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <ostream>

#include "meshbus/address.h"
#include "meshbus/key.h"

// What the addresses of hosts mean, and how they are printed.
namespace meshbus {
namespace {

/// The IPv4 or IPv6 bytes of a canonical host, IPv4-mapped ones as IPv4. Nothing for names.
struct Literal {
  bool v4 = false;
  bool v6 = false;
  std::array<std::uint8_t, 16> bytes{};
};

Literal literal(std::string_view host) noexcept {
  Literal out;
  std::array<char, INET6_ADDRSTRLEN> text{};
  host = host.substr(0, host.find('%'));
  if (host.size() >= text.size()) return out;
  std::copy(host.begin(), host.end(), text.begin());
  if (::inet_pton(AF_INET, text.data(), out.bytes.data()) == 1) {
    out.v4 = true;
  } else if (::inet_pton(AF_INET6, text.data(), out.bytes.data()) == 1) {
    constexpr std::array<std::uint8_t, 12> mapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    out.v4 = std::equal(mapped.begin(), mapped.end(), out.bytes.begin());
    out.v6 = !out.v4;
    if (out.v4) std::copy(out.bytes.begin() + 12, out.bytes.end(), out.bytes.begin());
  }
  return out;
}

}  // namespace

bool HostAddr::is_any() const noexcept {
  return transport_ == Transport::unix_socket ? name_.empty() : number_ == 0;
}

bool HostAddr::is_wildcard() const noexcept {
  if (transport_ != Transport::tcp) return false;
  if (name_ == "*") return true;
  const Literal address = literal(name_);
  const std::size_t size = address.v4 ? 4 : 16;
  return (address.v4 || address.v6) &&
         std::all_of(address.bytes.begin(), address.bytes.begin() + size,
                     [](std::uint8_t byte) { return byte == 0; });
}

bool HostAddr::is_loopback() const noexcept {
  if (transport_ != Transport::tcp) return false;
  std::string_view name = name_;
  if (name.ends_with('.')) name.remove_suffix(1);
  if (name == "localhost" || name.ends_with(".localhost")) return true;
  const Literal address = literal(name_);
  if (address.v4) return address.bytes[0] == 127;
  constexpr std::array<std::uint8_t, 16> one = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return address.v6 && address.bytes == one;
}

bool HostAddr::is_link_local() const noexcept {
  if (transport_ != Transport::tcp) return false;
  const Literal address = literal(name_);
  if (address.v4) return address.bytes[0] == 169 && address.bytes[1] == 254;
  return address.v6 && address.bytes[0] == 0xFE && (address.bytes[1] & 0xC0) == 0x80;
}

bool HostAddr::is_reachable_from_elsewhere() const noexcept {
  return transport_ == Transport::tcp && !is_any() && !is_wildcard() && !is_loopback() &&
         !is_link_local();
}

bool HostAddr::is_ipv6() const noexcept {
  return transport_ == Transport::tcp && name_.find(':') != std::string::npos;
}

std::string HostAddr::to_string() const {
  switch (transport_) {
    case Transport::tcp:
      return "tcp:" + (is_ipv6() ? "[" + name_ + "]" : name_) + ":" + std::to_string(number_);
    case Transport::unix_socket: return "unix:" + name_;
    case Transport::local: break;
  }
  return "local:" + std::to_string(number_);
}

std::string HostAddr::zmq_endpoint() const {
  switch (transport_) {
    case Transport::tcp:
      return "tcp://" + (is_ipv6() ? "[" + name_ + "]" : name_) + ":" +
             (number_ == 0 ? "*" : std::to_string(number_));
    case Transport::unix_socket: return "ipc://" + (name_.empty() ? "*" : name_);
    case Transport::local: break;
  }
  return "inproc://" + std::to_string(number_);
}

std::uint64_t HostAddr::key() const noexcept {
  return key_of(to_string());
}

[[gnu::visibility("default")]] std::ostream& operator<<(std::ostream& out,
                                                        const HostAddr& address) {
  return out << address.to_string();
}

}  // namespace meshbus

std::size_t std::hash<meshbus::HostAddr>::operator()(
    const meshbus::HostAddr& address) const noexcept {
  return static_cast<std::size_t>(address.key());
}
