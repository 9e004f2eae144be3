// Whose process is at the other end of a connection on 127.0.0.1.
#include "cli/hands/loopback_peer.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "common/base/unique_fd.h"

using namespace meshbus;
using namespace meshbus::cli;

namespace {

/// Rows as a little-endian machine shows them, which all that meshbus runs on are.
const std::string kTable =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n"
    "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 "
    "1111 1 0000000000000000 100 0 0 10 0\n"
    "   1: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 "
    "2222 1 0000000000000000 20 4 30 10 -1\n"
    "   2: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 "
    "3333 1 0000000000000000 20 4 30 10 -1\n"
    "   3: 0100007F:C002 0100007F:1F90 06 00000000:00000000 03:00000AAA 00000000     0        0 "
    "0 3 0000000000000000\n";
const std::string kMapped =
    "   0: 0000000000000000FFFF00000100007F:C003 0000000000000000FFFF00000100007F:1F90 01 "
    "00000000:00000000 00:00000000 00000000  1002        0 4444 1 0000000000000000 20 4 30 10 -1\n";

}  // namespace

TEST_CASE("loopback_peer: the user of the client's socket, not that of ours") {
  CHECK(find_socket_user(kTable, 0xC001, 0x1F90) == 1001);
  CHECK(find_socket_user(kTable, 0xC001, 0x1F91) == std::nullopt);
  CHECK(find_socket_user(kMapped, 0xC003, 0x1F90) == 1002);
}

TEST_CASE("loopback_peer: a socket without a process is nobody's, though its row says user 0") {
  CHECK(find_socket_user(kTable, 0xC002, 0x1F90) == std::nullopt);
  CHECK(find_socket_user("", 1, 2) == std::nullopt);
  CHECK(find_socket_user("nonsense\n1: 2 3\n", 1, 2) == std::nullopt);
}

TEST_CASE("loopback_peer: a connection of this process is this user's") {
  const UniqueFd door(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(door.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(door.get(), 1) == 0);
  REQUIRE(::getsockname(door.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  const UniqueFd server(::accept(door.get(), nullptr, nullptr));
  CHECK(user_of_loopback_peer(server.get()) == ::geteuid());
  client.reset();
  CHECK(user_of_loopback_peer(server.get()) == std::nullopt);
}
