// A connection to a unix socket that speaks ZMTP itself, against libzmq's ROUTER and against
// whatever else may sit there.
#include "common/zmtp/stream_socket.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <system_error>
#include <thread>

#include "tests/support/temp_dir.h"
#include "tests/world/loop.h"
#include "tests/world/strangers_zmtp.h"
#include "tests/world/zmtp_peers.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

/// A connection of ours to the unix socket of that path.
class Client : public ZmtpClient {
 public:
  Client(Loop& loop, const std::string& path) : ZmtpClient(loop, "ipc://" + path) {}
};

/// The other end, at the level of bytes.
class Server {
 public:
  explicit Server(const std::string& path, int backlog = 8)
      : listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
            0);
    REQUIRE(::listen(listener_.get(), backlog) == 0);
  }
  void accept() {
    peer_.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    REQUIRE(static_cast<bool>(peer_));
    const timeval patience{20, 0};
    REQUIRE(::setsockopt(peer_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
  }
  void say(std::string_view bytes) const {
    REQUIRE(::send(peer_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  /// The next bytes; none at the end.
  std::string heard(std::size_t most = 1 << 20) const {
    std::string bytes(most, '\0');
    const ssize_t count = ::recv(peer_.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return bytes;
  }
  void hang_up() { peer_.reset(); }

 private:
  UniqueFd listener_, peer_;
};

const std::string kReady = zmtp_frame("\5READY", false, true);

}  // namespace

TEST_CASE(
    "local socket: messages of every size and number of parts pass both ways, whole and in order") {
  TempDir dir;
  Loop loop;
  zmq::socket_t router(loop.context, zmq::socket_type::router);
  router.set(zmq::sockopt::linger, 0);
  router.set(zmq::sockopt::sndhwm, 0);
  router.set(zmq::sockopt::rcvhwm, 10);
  router.bind("ipc://" + (dir / "b"));
  Client client(loop, dir / "b");
  client.up();

  const std::vector<Parts> sent = many_messages();
  for (const Parts& message : sent) client.send(message);
  CHECK_FALSE(client.waiting.empty());  // more than a socket takes

  std::string id;
  std::size_t back = 0;
  const auto echo = [&] {
    zmq::message_t part;
    while (router.recv(part, zmq::recv_flags::dontwait)) {
      id = part.to_string();
      router.send(part, zmq::send_flags::sndmore);
      for (bool more = true; more;) {
        REQUIRE(router.recv(part).has_value());
        more = part.more();
        router.send(part, more ? zmq::send_flags::sndmore : zmq::send_flags::none);
      }
      ++back;
    }
    return client.received.size() == sent.size();
  };
  REQUIRE(loop.until(echo));
  CHECK(back == sent.size());
  CHECK(client.waiting.empty());
  CHECK(std::equal(sent.begin(), sent.end(), client.received.begin()));

  router.close();
  REQUIRE(loop.until([&] { return client.ended > 0; }));
}

TEST_CASE(
    "local socket: bytes that come one by one are the same messages, and all that came is heard "
    "before the end") {
  TempDir dir;
  Loop loop;
  Server server(dir / "b");
  Client client(loop, dir / "b");
  server.accept();
  const std::string body(300, 'b');
  for (const char byte : zmtp_greeting() + kReady + zmtp_frame("a", true) +
                             zmtp_frame(body, false) + zmtp_frame("\4PING", false, true)) {
    server.say(std::string(1, byte));
    loop.reactor.turn(0ms);
  }
  REQUIRE(loop.until([&] { return client.received.size() == 1; }));
  CHECK(client.opened == 1);
  CHECK(client.received[0] == Parts{"a", body});
  CHECK(server.heard().starts_with(zmtp_greeting().substr(0, 8)));

  std::string last;
  for (int i = 0; i < 1000; ++i) last += zmtp_frame(std::to_string(i), false);
  server.say(last + zmtp_frame("half a message", true));
  server.hang_up();
  REQUIRE(loop.until([&] { return client.ended > 0; }));
  CHECK(client.received.size() == 1001);
  CHECK(client.received.back() == Parts{"999"});
}

TEST_CASE("local socket: whatever it is not, is its end, and it says why") {
  TempDir dir;
  Loop loop;
  Server server(dir / "b");
  std::string curve = zmtp_greeting();
  curve.replace(12, 5, "CURVE");
  std::string old = zmtp_greeting();
  old[10] = 1;
  const std::string good = zmtp_greeting() + kReady;
  std::string many;
  for (std::size_t i = 0; i <= kMostParts; ++i) many += zmtp_frame("p", true);
  struct Case {
    std::string bytes, why;
  };
  const Case cases[] = {
      {std::string(64, 'x'), "the broker does not speak ZMTP 3"},
      {std::string("HTTP/1.1 400 Bad Request\r\n\r\n") + std::string(64, ' '),
       "the broker does not speak ZMTP 3"},
      {curve, "the broker asks for another security mechanism"},
      {old, "the broker does not speak ZMTP 3"},
      {zmtp_greeting() + zmtp_frame("\5ERROR\6refuse", false, true),
       "the broker refused the handshake"},
      {zmtp_greeting() + zmtp_frame("no command", false), "the broker refused the handshake"},
      {good + "\xff\xff\xff", "the broker sent what is no frame of ZMTP"},
      {good + zmtp_long_header(kPartLimit + 1, 0),
       "the broker sent a part of " + std::to_string(kPartLimit + 1) + " bytes"},
      {good + zmtp_long_header(~std::uint64_t{0}, 1),
       "the broker sent a part of 18446744073709551615 bytes"},
      {good + many, "the broker sent a message of more than 1024 parts"},
  };
  for (const auto& [bytes, why] : cases) {
    INFO(bytes.substr(0, 30));
    Client client(loop, dir / "b");
    server.accept();
    server.say(bytes);
    REQUIRE(loop.until([&] { return client.ended > 0; }));
    CHECK(client.why == why);
    CHECK(client.received.empty());
    CHECK(client.failed.has_value() == (bytes == curve));
  }
  // Half of anything is no end, until it ends.
  for (std::size_t size = 0; size < good.size(); size += 7) {
    Client client(loop, dir / "b");
    server.accept();
    server.say(good.substr(0, size));
    loop.reactor.turn(0ms);
    loop.reactor.turn(0ms);
    CHECK(client.ended == 0);
    server.hang_up();
    REQUIRE(loop.until([&] { return client.ended > 0; }));
    CHECK(client.why == "the broker closed it");
    CHECK(client.opened == 0);
  }
}

TEST_CASE("local socket: any of its handlers may destroy it") {
  TempDir dir;
  Loop loop;
  Server server(dir / "b");
  enum class At { open, failed, readable, writable, ended };
  for (const At at : {At::open, At::failed, At::readable, At::writable, At::ended}) {
    CAPTURE(static_cast<int>(at));
    std::unique_ptr<StreamSocket> connection;
    // As long a name as a handler's own memory would not hold: it is read after the connection is
    // gone.
    const std::string name(100, 'n');
    std::string destroyed;
    const auto handler = [&, name](At here) {
      if (here != at) return;
      connection.reset();
      destroyed = name;
    };
    BrokerSocket::Events events;
    events.on_open = [handler] { handler(At::open); };
    events.on_handshake_failed = [handler](BrokerSocket::Failure) { handler(At::failed); };
    events.on_readable = [handler, &connection] {
      std::vector<MessagePart> parts;
      const bool is_more = connection->receive(parts);
      handler(At::readable);
      return is_more;
    };
    events.on_writable = [handler] { handler(At::writable); };
    events.on_ended = [handler](const std::string&) { handler(At::ended); };
    connection = std::make_unique<StreamSocket>(
        loop.reactor, BrokerSocket::Options{.endpoint = "ipc://" + (dir / "b")}, std::move(events));
    server.accept();
    std::string greeting = zmtp_greeting();
    if (at == At::failed) greeting.replace(12, 5, "CURVE");
    server.say(greeting + kReady);
    if (at == At::writable) {
      Frame frame;
      frame.parts.emplace_back(4 << 20);
      REQUIRE(connection->send(frame));
      while (destroyed.empty() && !server.heard().empty()) loop.reactor.turn(0ms);
    }
    if (at == At::readable) server.say(zmtp_frame("hello", false));
    if (at == At::ended) server.hang_up();
    REQUIRE(loop.until([&] { return !destroyed.empty(); }));
    CHECK(destroyed == name);
    CHECK_FALSE(connection);
  }
}

TEST_CASE("local socket: who is not there, or takes no more, is told at once") {
  TempDir dir;
  Loop loop;
  CHECK_THROWS_WITH_AS(Client(loop, dir / "b"), "No such file or directory", std::system_error);
  CHECK_THROWS_AS(Client(loop, std::string(200, 'x')), std::system_error);
  CHECK_THROWS_AS(Client(loop, ""), std::system_error);
  Server server(dir / "b", /*backlog=*/1);
  std::deque<Client> crowd;
  CHECK_THROWS_WITH_AS(
      [&] {
        for (int i = 0; i < 100; ++i) crowd.emplace_back(loop, dir / "b");
      }(),
      "Resource temporarily unavailable", std::system_error);
}

TEST_CASE("local socket: what it took leaves while it lingers, and no longer") {
  TempDir dir;
  Loop loop;
  Server server(dir / "b");
  const std::string body(900'000, 'l');
  for (const bool is_read : {true, false}) {
    CAPTURE(is_read);
    Client client(loop, dir / "b");
    server.accept();
    server.say(zmtp_greeting() + kReady);
    client.up();
    std::size_t taken = 0;
    std::thread reader;
    if (is_read) {
      reader = std::thread([&] {
        for (std::string bytes = server.heard(); !bytes.empty(); bytes = server.heard())
          taken += bytes.size();
      });
    }
    client.connection->set_linger(is_read ? 20s : 100ms);
    client.send({body});
    const auto start = std::chrono::steady_clock::now();
    client.connection.reset();
    const auto took = std::chrono::steady_clock::now() - start;
    if (reader.joinable()) reader.join();
    CHECK(took < 10s);
    if (is_read) CHECK(taken >= body.size());
  }
}
