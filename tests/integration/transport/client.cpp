// Our end of a tcp connection to a broker, against libzmq's ROUTER, with keys (CURVE, ZAP) and
// without, and against what else may sit there.
#include <doctest/doctest.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/integration/transport/zap.h"
#include "tests/support/process.h"
#include "tests/world/strangers_zmtp.h"
#include "tests/world/zmtp_peers.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

/// A ROUTER of libzmq on tcp.
struct LibzmqRouter {
  explicit LibzmqRouter(Loop& its_loop, bool has_keys = false,
                        const std::function<void(zmq::socket_t&)>& change = {})
      : loop(its_loop), socket(its_loop.context, zmq::socket_type::router) {
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::sndhwm, 0);
    if (has_keys) {
      zap = std::move(*Zap::open(loop.reactor, loop.context,
                                 [this](std::string_view key, std::string_view, bool) {
                                   asked = key;
                                   return std::optional(is_authorised);
                                 }));
      socket.set(zmq::sockopt::zap_domain, Zap::kDomain);
      socket.set(zmq::sockopt::curve_secretkey, own.secret_key);
      socket.set(zmq::sockopt::curve_server, true);
    }
    if (change) change(socket);
    socket.bind("tcp://127.0.0.1:*");
    endpoint = socket.get(zmq::sockopt::last_endpoint);
  }
  BrokerSocket::Keys keys() const { return {client.public_key, client.secret_key, own.public_key}; }

  Loop& loop;
  TextKeys own, client;
  std::unique_ptr<Zap> zap;
  zmq::socket_t socket;
  std::string endpoint, asked;
  bool is_authorised = true;
};

/// A listener that takes one connection and speaks in bytes.
struct RawListener {
  RawListener() : listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
            0);
    REQUIRE(::listen(listener.get(), 8) == 0);
    socklen_t size = sizeof address;
    REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    endpoint = "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  UniqueFd accept() const {
    return UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }

  UniqueFd listener;
  std::string endpoint;
};

/// Sends back what comes, with keys if it is given some; says where it listens.
const std::string python_router = R"(
import sys, zmq
from zmq.auth.thread import ThreadAuthenticator
context = zmq.Context()
socket = context.socket(zmq.ROUTER)
socket.linger = 0
socket.sndhwm = socket.rcvhwm = 0  # a full queue of a ROUTER drops messages
if len(sys.argv) > 1:
    authenticator = ThreadAuthenticator(context)
    authenticator.start()
    authenticator.configure_curve(domain='*', location=zmq.auth.CURVE_ALLOW_ANY)
    socket.curve_secretkey = sys.argv[1].encode()
    socket.curve_server = True
socket.setsockopt(zmq.HEARTBEAT_IVL, 50)
socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 5000)
port = socket.bind_to_random_port('tcp://127.0.0.1')
print('port', port, 'libzmq', zmq.zmq_version(), flush=True)
while True:
    socket.send_multipart(socket.recv_multipart())
)";

}  // namespace

TEST_CASE("zmtp client: pyzmq's ROUTER sends back messages of every size, again after its death") {
  for (const bool has_keys : {false, true}) {
    CAPTURE(has_keys);
    const TextKeys own, other;
    const BrokerSocket::Keys keys{other.public_key, other.secret_key, own.public_key};
    for (int round = 0; round < 2; ++round) {
      Loop loop;
      std::vector<std::string> words = {"/usr/bin/python3", "-c", python_router};
      if (has_keys) words.push_back(own.secret_key);
      auto python = std::make_unique<Process>(words);
      python->wait_for_output("libzmq 4.", 30s);
      const std::string port = python->out().substr(5, python->out().find(" libzmq") - 5);
      ZmtpClient client(loop, "tcp://127.0.0.1:" + port, has_keys ? &keys : nullptr);
      client.up();
      const auto sent = many_messages();
      for (const Parts& message : sent) client.send(message);
      REQUIRE(loop.until([&] { return client.received.size() == sent.size(); }, 60s));
      CHECK(std::equal(sent.begin(), sent.end(), client.received.begin()));
      CHECK(client.ended == 0);
      python.reset();
      CHECK(loop.until([&] { return client.ended == 1; }));
    }
  }
}

TEST_CASE(
    "zmtp client: messages of every size pass both ways between it and libzmq's ROUTER over tcp") {
  for (const bool has_keys : {false, true}) {
    CAPTURE(has_keys);
    Loop loop;
    LibzmqRouter router(loop, has_keys);
    const auto keys = router.keys();
    ZmtpClient client(loop, router.endpoint, has_keys ? &keys : nullptr);
    client.up();
    if (has_keys) CHECK(router.asked == router.client.public_key);
    const auto sent = many_messages();
    for (const Parts& message : sent) client.send(message);
    REQUIRE(loop.until([&] {
      for (Parts message; receive_message(router.socket, message); message.clear())
        REQUIRE(send_message(router.socket, message));
      return client.received.size() == sent.size();
    }));
    CHECK(std::equal(sent.begin(), sent.end(), client.received.begin()));
    CHECK(client.ended == 0);
    client.connection.reset();
  }
}

TEST_CASE("zmtp client: libzmq's ROUTER refuses a key, and it is told so") {
  Loop loop;
  LibzmqRouter router(loop, true);
  router.is_authorised = false;
  const auto keys = router.keys();
  ZmtpClient client(loop, router.endpoint, &keys);
  REQUIRE(loop.until([&] { return client.ended == 1; }));
  CHECK(client.opened == 0);
  CHECK(client.failed == BrokerSocket::Failure::unauthorised);
}

TEST_CASE(
    "zmtp client: another key of libzmq's ROUTER, or keys on one side only, end the handshake "
    "without a word") {
  Loop loop;
  LibzmqRouter with(loop, true), without(loop);
  // libzmq sends its greeting, or not any more, as it happens.
  const auto is_without_a_word = [](const auto& failed) {
    return failed == BrokerSocket::Failure::silent || failed == BrokerSocket::Failure::no_greeting;
  };
  SUBCASE("another key: it hangs up without a word") {
    auto keys = with.keys();
    keys.server_key = TextKeys().public_key;
    ZmtpClient client(loop, with.endpoint, &keys);
    REQUIRE(loop.until([&] { return client.ended == 1; }));
    CHECK(is_without_a_word(client.failed));
    CHECK(client.opened == 0);
  }
  SUBCASE("only the ROUTER has keys") {
    ZmtpClient client(loop, with.endpoint);
    REQUIRE(loop.until([&] { return client.ended == 1; }));
    CHECK(is_without_a_word(client.failed));
    CHECK(client.opened == 0);
  }
  SUBCASE("only the client has keys") {
    const auto keys = without.keys();
    ZmtpClient client(loop, without.endpoint, &keys);
    REQUIRE(loop.until([&] { return client.ended == 1; }));
    CHECK(is_without_a_word(client.failed));
    CHECK(client.opened == 0);
  }
}

TEST_CASE("zmtp client: heartbeats of libzmq are answered, and its own are") {
  for (const bool has_keys : {false, true}) {
    CAPTURE(has_keys);
    Loop loop;
    LibzmqRouter router(loop, has_keys, [](zmq::socket_t& socket) {
      socket.set(zmq::sockopt::heartbeat_ivl, 50);
      socket.set(zmq::sockopt::heartbeat_timeout, 400);
    });
    const auto keys = router.keys();
    ZmtpClient client(loop, router.endpoint, has_keys ? &keys : nullptr);
    client.up();
    loop.run_for(2200ms);
    CHECK(client.ended == 0);
    client.send({"still there"});
    Parts heard;
    REQUIRE(loop.until([&] { return receive_message(router.socket, heard); }));
    CHECK(heard.back() == "still there");
    client.connection.reset();
  }
}

TEST_CASE(
    "zmtp client: a broker that gives no sign any more is given up, one that nobody serves at "
    "once") {
  Loop loop;
  SUBCASE("silent after its handshake") {
    RawListener listener;
    ZmtpClient client(loop, listener.endpoint);
    const UniqueFd peer = listener.accept();
    const std::string hello = zmtp_greeting() + zmtp_ready("ROUTER");
    REQUIRE(::send(peer.get(), hello.data(), hello.size(), 0) ==
            static_cast<ssize_t>(hello.size()));
    client.up();
    REQUIRE(loop.until([&] { return client.ended == 1; }));
    CHECK(client.why.find("gave no sign") != std::string::npos);
  }
  SUBCASE("closed before it has said anything") {
    RawListener listener;
    ZmtpClient client(loop, listener.endpoint);
    listener.accept();
    REQUIRE(loop.until([&] { return client.ended == 1; }));
    CHECK((client.failed == BrokerSocket::Failure::no_greeting));
    CHECK(client.opened == 0);
  }
  SUBCASE("nobody listens") {
    std::string endpoint = RawListener().endpoint;
    ZmtpClient client(loop, endpoint);
    REQUIRE(loop.until([&] { return client.ended == 1; }, 5s));
    CHECK(client.why.find("refused") != std::string::npos);
    CHECK_FALSE(client.failed.has_value());
  }
  SUBCASE("a name: the addresses that it has are tried") {
    LibzmqRouter router(loop);
    const auto port = router.endpoint.substr(router.endpoint.rfind(':'));
    ZmtpClient client(loop, "tcp://localhost" + port);
    client.up();
  }
  SUBCASE("a name that is none") {
    ZmtpClient client(loop, "tcp://no-such-host.invalid:1");
    REQUIRE(loop.until([&] { return client.ended == 1; }));
    CHECK(client.why.find("cannot be resolved") != std::string::npos);
  }
}

TEST_CASE("zmtp client: connections to libzmq's ROUTER come and go by the hundred") {
  Loop loop;
  LibzmqRouter router(loop, true);
  const auto keys = router.keys();
  for (int i = 0; i < 200; ++i) {
    ZmtpClient client(loop, router.endpoint, &keys);
    client.up().send({std::to_string(i)});
    Parts heard;
    REQUIRE(loop.until([&] { return receive_message(router.socket, heard); }));
    CHECK(heard.back() == std::to_string(i));
  }
}
