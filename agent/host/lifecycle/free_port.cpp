#include "agent/host/lifecycle/free_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "common/base/os_error.h"
#include "common/base/unique_fd.h"
#include "common/security/token.h"

namespace meshbus::host {
namespace {

constexpr std::uint32_t kFirstPort = 10'000;  // Below are ports that people know services by.
constexpr std::uint32_t kLastPort = 65'535;
constexpr int kTries = 64;

/// 0 = any. The port that is bound then, and is free again. Errors: io_error.
Result<std::uint16_t> bind_once(std::uint16_t port) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return fail(ErrorCode::io_error, os_error("free port: socket"));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(port);
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return fail(ErrorCode::io_error, os_error("free port: bind"));
  socklen_t size = sizeof address;
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return fail(ErrorCode::io_error, os_error("free port: getsockname"));
  return ntohs(address.sin_port);
}

bool are_all_free(std::uint32_t first) {
  for (std::uint32_t port = first; port < first + kPortRun; ++port) {
    if (!bind_once(static_cast<std::uint16_t>(port))) return false;
  }
  return true;
}

}  // namespace

std::optional<PortRange> ports_outside(PortRange taken) {
  const auto fits = [](const PortRange& range) { return range.last + 1 >= range.first + kPortRun; };
  const PortRange below{kFirstPort, std::max(taken.first, 1U) - 1};
  const PortRange above{std::max(taken.last + 1, kFirstPort), kLastPort};
  if (fits(below)) return below;
  return fits(above) ? std::optional(above) : std::nullopt;
}

Result<std::uint16_t> find_free_port() {
  PortRange outgoing;
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  if (file >> outgoing.first >> outgoing.last) {
    const auto range = ports_outside(outgoing);
    for (int i = 0; range && i < kTries; ++i) {
      const auto count = range->last - range->first + 2 - kPortRun;
      const auto first = range->first + static_cast<std::uint32_t>(random_u64() % count);
      if (are_all_free(first)) return static_cast<std::uint16_t>(first);
    }
  }
  return bind_once(0);
}

}  // namespace meshbus::host
