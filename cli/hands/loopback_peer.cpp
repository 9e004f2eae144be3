#include "cli/hands/loopback_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdio>
#include <sstream>
#include <string>

#include "common/base/file_text.h"

namespace meshbus::cli {
namespace {

/// An address of 127.0.0.1 as the kernel writes it: as words of the machine's byte order. A socket
/// of IPv6 has it mapped.
std::string loopback_text(bool is_mapped, std::uint16_t port) {
  std::array<char, 48> text{};
  const auto address = static_cast<unsigned>(htonl(INADDR_LOOPBACK));
  const auto mark = static_cast<unsigned>(htonl(0xffff));
  if (is_mapped)
    std::snprintf(text.data(), text.size(), "%016X%08X%08X:%04X", 0U, mark, address,
                  static_cast<unsigned>(port));
  else
    std::snprintf(text.data(), text.size(), "%08X:%04X", address, static_cast<unsigned>(port));
  return text.data();
}

std::optional<std::uint16_t> port_of(int connection, decltype(::getpeername)* get) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (get(connection, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      address.sin_family != AF_INET || address.sin_addr.s_addr != htonl(INADDR_LOOPBACK))
    return std::nullopt;
  return ntohs(address.sin_port);
}

}  // namespace

std::optional<uid_t> find_socket_user(std::string_view table, std::uint16_t client,
                                      std::uint16_t server) {
  std::istringstream lines{std::string(table)};
  for (std::string line; std::getline(lines, line);) {
    // sl local remote state tx:rx tr:when retransmits uid timeout inode
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retransmits;
    uid_t user = 0;
    std::uint64_t timeout = 0, inode = 0;
    if (!(words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >>
          timeout >> inode))
      continue;
    // Without an inode no process has it, and the kernel says user 0.
    const bool is_mapped = local.size() > 16;
    if (inode != 0 && local == loopback_text(is_mapped, client) &&
        remote == loopback_text(is_mapped, server))
      return user;
  }
  return std::nullopt;
}

std::optional<uid_t> user_of_loopback_peer(int connection) {
  const auto client = port_of(connection, ::getpeername);
  const auto server = port_of(connection, ::getsockname);
  if (!client || !server) return std::nullopt;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    if (auto user = find_socket_user(file_text(path), *client, *server)) return user;
  }
  return std::nullopt;
}

}  // namespace meshbus::cli
