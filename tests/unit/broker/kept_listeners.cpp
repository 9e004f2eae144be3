// Listening sockets that outlive a broker are found again by where they are bound.
#include "broker/transport/kept_listeners.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/temp_dir.h"

using namespace meshbus;
using namespace meshbus::test;

namespace {

UniqueFd listen_at(const sockaddr* address, socklen_t size) {
  UniqueFd socket(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(socket.get(), address, size) == 0);
  REQUIRE(::listen(socket.get(), 1) == 0);
  return socket;
}

TcpAddress tcp(const std::string& text) {
  return *TcpAddress::of(*HostAddr::parse(text));
}

}  // namespace

TEST_CASE("kept_listeners: each is taken once, by whoever is to be bound there") {
  const TempDir dir;
  const UnixAddress path(dir / "bus"), other(dir / "bus2"),
      name("@meshbus-test-" + dir.path().string());
  std::vector<UniqueFd> sockets;
  sockets.push_back(listen_at(path.get(), path.size()));
  sockets.push_back(listen_at(name.get(), name.size()));
  const auto any = tcp("tcp:127.0.0.1:0");
  sockets.push_back(listen_at(any.get(), any.size()));
  const auto bound = *TcpAddress::of_own(sockets.back().get());
  const int numbers[] = {sockets[0].get(), sockets[1].get(), sockets[2].get()};
  KeptListeners kept(std::move(sockets));
  CHECK_FALSE(kept.take(other));
  CHECK_FALSE(kept.take(any));
  CHECK_FALSE(kept.take(tcp("tcp:127.0.0.2:" + std::to_string(bound.port()))));
  CHECK(kept.take(bound).get() == numbers[2]);
  CHECK_FALSE(kept.take(bound));
  CHECK(kept.take(name).get() == numbers[1]);
  CHECK(kept.take(path).get() == numbers[0]);
  CHECK_FALSE(kept.take(path));
}

TEST_CASE(
    "kept_listeners: a socket whose file is gone can be reached by nobody, and is not taken") {
  const TempDir dir;
  const UnixAddress path(dir / "bus");
  std::vector<UniqueFd> sockets;
  sockets.push_back(listen_at(path.get(), path.size()));
  REQUIRE(::unlink((dir / "bus").c_str()) == 0);
  KeptListeners kept(std::move(sockets));
  CHECK_FALSE(kept.take(path));
}
