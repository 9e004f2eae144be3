// The HTTP server with peers that do not read.
#include <doctest/doctest.h>

#include <sys/socket.h>

#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/base/unix_address.h"
#include "common/http/http_server.h"
#include "common/http/http_socket.h"
#include "common/loop/reactor.h"
#include "tests/support/temp_dir.h"

using namespace meshbus;
using namespace meshbus::http;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

/// A peer that asks for something, and reads nothing before read().
class SlowReader {
 public:
  SlowReader(const std::string& path, Reactor& reactor) : reactor_(reactor) {
    const UnixAddress address(path);
    REQUIRE(::connect(socket_.get(), address.get(), address.size()) == 0);
    const std::string request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    REQUIRE(::send(socket_.get(), request.data(), request.size(), 0) ==
            static_cast<ssize_t>(request.size()));
  }
  /// All that comes until the server closes.
  std::string read() {
    std::string text;
    std::array<char, 65536> buffer;
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (std::chrono::steady_clock::now() < end) {
      const auto got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got == 0) return text;
      if (got > 0) text.append(buffer.data(), static_cast<std::size_t>(got));
      reactor_.turn(1ms);
    }
    return "no end of: " + text;
  }

 private:
  Reactor& reactor_;
  UniqueFd socket_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
};

}  // namespace

TEST_CASE("http_server: it holds so many bytes for all readers together, and says so to others") {
  const TempDir dir;
  const auto path = dir / "socket";
  Reactor reactor;
  std::vector<HttpServer::Reply> streams;
  HttpServer server(reactor, std::move(*listen_http("unix:" + path)),
                    {.connections = 8, .pending = 11 << 19, .connection = {.stream = 4 << 20}},
                    [&](const HttpRequest&, const HttpServer::Reply& reply) {
                      streams.push_back(reply);
                      reply.begin_stream({.body = std::string(2 << 20, 'x')});
                    });
  const auto serve = [&](std::size_t count) {
    for (int i = 0; i < 10'000 && streams.size() < count; ++i) reactor.turn(1ms);
    REQUIRE(streams.size() == count);
  };
  SlowReader first(path, reactor);
  serve(1);
  SlowReader second(path, reactor);
  serve(2);
  CHECK(streams[1].is_open());
  SlowReader third(path, reactor);
  serve(3);
  CHECK(third.read().starts_with("HTTP/1.1 503 "));
  // Streams that are open go on.
  CHECK(streams[0].write("more"));
  CHECK(streams[1].is_open());
  // A write that does not fit ends the stream that is behind most.
  CHECK(streams[1].write(std::string(1 << 20, 'y')));
  CHECK(streams[0].write(std::string(1 << 20, 'y')));
  CHECK(streams[0].is_open());
  CHECK_FALSE(streams[1].is_open());
}
