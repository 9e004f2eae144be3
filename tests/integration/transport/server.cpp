// The broker's end of tcp connections, against libzmq's DEALER in C and in Python, against ours,
// and against strangers that cost as much as they can.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "broker/transport/stream_router.h"
#include "tests/support/process.h"
#include "tests/support/socket_monitor.h"
#include "tests/world/zmtp_peers.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

/// A router on tcp, and what it tells. It sends back what comes, as far as there is room.
class TcpRouter {
 public:
  explicit TcpRouter(bool has_keys, StreamRouter::Limits limits = {}) {
    StreamRouter::Events events;
    events.on_message = [this](ConnectionId from, std::vector<MessagePart>& parts) {
      Parts message;
      for (const auto& part : parts) message.emplace_back(part.view());
      waiting[from].push_back(std::move(message));
      flush(from);
    };
    events.on_accepted = [this](ConnectionId id, int) { accepted.push_back(id); };
    events.on_ended = [this](ConnectionId id, const ZmtpStream& stream) {
      ended[id] = stream.why_ended();
    };
    events.on_writable = [this](ConnectionId id) { flush(id); };
    events.judge = [this](std::string_view key, std::string_view address, bool may_wait) {
      asked = key;
      asked_from = address;
      return may_wait && waits_for_verdict ? std::nullopt : std::optional(verdict);
    };
    router = std::make_unique<StreamRouter>(loop.reactor, limits, std::move(events));
    if (has_keys) router->set_keys(CurveKeyPair::from_text(own.public_key, own.secret_key));
    const auto any = TcpAddress::of(*HostAddr::parse("tcp:127.0.0.1:0"));
    port = router->listen(*any).port();
    endpoint = "tcp://127.0.0.1:" + std::to_string(port);
  }
  void flush(ConnectionId id) {
    for (auto& messages = waiting[id]; !messages.empty(); messages.pop_front()) {
      Frame frame;
      for (const auto& part : messages.front()) frame.parts.emplace_back(part);
      if (router->send(id, frame) != StreamRouter::Sent::yes) return;
      ++sent_back;
    }
  }
  BrokerSocket::Keys keys() const { return {client.public_key, client.secret_key, own.public_key}; }
  void give_keys(zmq::socket_t& socket) const {
    socket.set(zmq::sockopt::curve_serverkey, own.public_key);
    socket.set(zmq::sockopt::curve_publickey, client.public_key);
    socket.set(zmq::sockopt::curve_secretkey, client.secret_key);
  }

  Loop loop;
  TextKeys own, client;
  std::unique_ptr<StreamRouter> router;
  std::string endpoint, asked, asked_from;
  std::uint16_t port = 0;
  KeyVerdict verdict = KeyVerdict::trusted;
  bool waits_for_verdict = false;
  std::vector<ConnectionId> accepted;
  std::map<ConnectionId, std::deque<Parts>> waiting;
  std::map<ConnectionId, std::string> ended;
  std::size_t sent_back = 0;
};

const std::string python_dealer = R"(
import sys, zmq
socket = zmq.Context().socket(zmq.DEALER)
socket.linger = 0
if len(sys.argv) > 2:
    keys = [key.encode() for key in sys.argv[2:]]
    socket.curve_serverkey, socket.curve_publickey, socket.curve_secretkey = keys
socket.setsockopt(zmq.HEARTBEAT_IVL, 100)
socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 5000)
socket.connect(sys.argv[1])
for size in (0, 1, 222, 223, 255, 256, 65536, 1 << 20):
    parts = [b'head', b'x' * size, b'']
    socket.send_multipart(parts)
    assert socket.recv_multipart() == parts, size
print('all came back', zmq.zmq_version())
)";

}  // namespace

TEST_CASE(
    "zmtp server: messages of every size pass both ways between it and libzmq's DEALER over tcp") {
  for (const bool has_keys : {false, true}) {
    CAPTURE(has_keys);
    TcpRouter at(has_keys);
    zmq::socket_t dealer(at.loop.context, zmq::socket_type::dealer);
    dealer.set(zmq::sockopt::linger, 0);
    dealer.set(zmq::sockopt::sndhwm, 0);
    dealer.set(zmq::sockopt::rcvhwm, 0);
    dealer.set(zmq::sockopt::routing_id, "a name of its own, which changes nothing");
    if (has_keys) at.give_keys(dealer);
    dealer.connect(at.endpoint);
    const auto sent = many_messages();
    for (const Parts& message : sent) REQUIRE(send_message(dealer, message));
    std::vector<Parts> got;
    REQUIRE(at.loop.until([&] {
      for (Parts message; receive_message(dealer, message); message.clear()) got.push_back(message);
      return got.size() == sent.size();
    }));
    CHECK(got == sent);
    CHECK(at.ended.empty());
    REQUIRE(at.accepted.size() == 1);
    CHECK_FALSE(StreamRouter::is_local(at.accepted[0]));
    CHECK(at.router->address_of(at.accepted[0]) == "127.0.0.1");
    CHECK(at.router->key_of(at.accepted[0]) == (has_keys ? at.client.public_key : ""));
    CHECK_FALSE(at.router->process_of(at.accepted[0]).has_value());
    if (has_keys) CHECK(at.asked_from == "127.0.0.1");
    dealer.close();
    REQUIRE(at.loop.until([&] { return at.ended.size() == 1; }));
  }
}

TEST_CASE("zmtp server: ours and ours, and pyzmq's DEALER") {
  for (const bool has_keys : {false, true}) {
    CAPTURE(has_keys);
    TcpRouter at(has_keys);
    const auto keys = at.keys();
    ZmtpClient client(at.loop, at.endpoint, has_keys ? &keys : nullptr);
    client.up();
    const auto sent = many_messages();
    for (const Parts& message : sent) client.send(message);
    std::vector<std::string> words = {"/usr/bin/python3", "-c", python_dealer, at.endpoint};
    if (has_keys)
      words.insert(words.end(), {at.own.public_key, at.client.public_key, at.client.secret_key});
    Process python(words);
    REQUIRE(at.loop.until(
        [&] { return client.received.size() == sent.size() && !python.is_running(); }, 60s));
    CHECK(std::ranges::equal(client.received, sent));
    CHECK(python.err() == "");
    CHECK(python.out().starts_with("all came back 4."));
    client.connection.reset();
  }
}

TEST_CASE("zmtp server: a DEALER of libzmq that loses its connection comes back by itself") {
  TcpRouter at(true);
  zmq::socket_t dealer(at.loop.context, zmq::socket_type::dealer);
  dealer.set(zmq::sockopt::linger, 0);
  dealer.set(zmq::sockopt::reconnect_ivl, 10);
  at.give_keys(dealer);
  dealer.connect(at.endpoint);
  for (std::size_t round = 1; round <= 5; ++round) {
    Parts heard;
    REQUIRE(send_message(dealer, {std::to_string(round)}));
    REQUIRE(at.loop.until([&] { return receive_message(dealer, heard); }));
    CHECK(heard == Parts{std::to_string(round)});
    at.router->end_tcp("test");
    CHECK(at.ended.size() == round);
    REQUIRE(at.loop.until([&] { return at.accepted.size() == round + 1; }));
  }
}

TEST_CASE("zmtp server: heartbeats are answered both ways, and silence ends a connection") {
  for (const bool has_keys : {false, true}) {
    CAPTURE(has_keys);
    TcpRouter at(has_keys, {.silence = 1200ms});
    zmq::socket_t dealer(at.loop.context, zmq::socket_type::dealer);
    dealer.set(zmq::sockopt::linger, 0);
    dealer.set(zmq::sockopt::heartbeat_ivl, 50);
    dealer.set(zmq::sockopt::heartbeat_timeout, 500);
    if (has_keys) at.give_keys(dealer);
    SocketMonitor monitor(at.loop.context, dealer, ZMQ_EVENT_DISCONNECTED);
    dealer.connect(at.endpoint);
    const auto keys = at.keys();
    ZmtpClient client(at.loop, at.endpoint, has_keys ? &keys : nullptr);
    client.up();
    // One that says nothing, and answers nothing.
    std::optional<RawCurve> with;
    std::optional<RawConnection> without;
    if (has_keys) {
      with.emplace(at.loop, std::to_string(at.port), at.own, at.client).up();
    } else {
      without.emplace(std::to_string(at.port));
      REQUIRE(without->write(zmtp_greeting() + zmtp_ready("DEALER")));
    }
    REQUIRE(at.loop.until([&] { return at.accepted.size() == 3; }));
    REQUIRE(at.loop.until([&] { return at.ended.size() == 1; }));
    CHECK(at.ended.begin()->second == "gave no sign any more");
    at.loop.run_for(700ms);
    CHECK(at.ended.size() == 1);
    CHECK_FALSE(monitor.next().has_value());
    client.connection.reset();
  }
}

TEST_CASE("zmtp server: a link's time to live ends its connection sooner than the limit") {
  TcpRouter at(false);
  RawConnection link(std::to_string(at.port));
  REQUIRE(link.write(zmtp_greeting() + zmtp_ready("DEALER") +
                     zmtp_frame(std::string("\4PING\0\6", 7), false, true)));
  REQUIRE(at.loop.until([&] { return at.ended.size() == 1; }, 3s));
  CHECK(at.ended.begin()->second == "gave no sign any more");
}

TEST_CASE("zmtp server: a key that has as many connections as one may have is told so") {
  TcpRouter at(true, {.key = {.connections = 1}});
  at.verdict = KeyVerdict::bounded;
  const auto keys = at.keys();
  auto first = std::make_unique<ZmtpClient>(at.loop, at.endpoint, &keys);
  first->up();
  ZmtpClient second(at.loop, at.endpoint, &keys);
  REQUIRE(at.loop.until([&] { return second.ended == 1; }));
  CHECK(second.failed == BrokerSocket::Failure::no_room);
  // libzmq's is told, too.
  zmq::socket_t dealer(at.loop.context, zmq::socket_type::dealer);
  dealer.set(zmq::sockopt::linger, 0);
  at.give_keys(dealer);
  SocketMonitor monitor(at.loop.context, dealer, ZMQ_EVENT_HANDSHAKE_FAILED_AUTH);
  dealer.connect(at.endpoint);
  std::optional<SocketMonitor::Event> event;
  REQUIRE(at.loop.until([&] { return (event = monitor.next()).has_value(); }));
  CHECK(event->value == 300);
  // When the first one has left there is room.
  first.reset();
  REQUIRE(at.loop.until([&] { return at.ended.size() == 3; }));
  ZmtpClient third(at.loop, at.endpoint, &keys);
  third.up();
}

TEST_CASE("zmtp server: keys that are not authorised, not its own or missing do not come in") {
  TcpRouter at(true);
  SUBCASE("not authorised: told so, at once and after a second look") {
    at.verdict = KeyVerdict::refused;
    SUBCASE("at once") {}
    SUBCASE("later") {
      at.waits_for_verdict = true;
    }
    const auto keys = at.keys();
    ZmtpClient client(at.loop, at.endpoint, &keys);
    REQUIRE(at.loop.until([&] { return !at.asked.empty(); }));
    if (at.waits_for_verdict) {
      at.loop.run_for(100ms);
      CHECK(client.ended == 0);
      CHECK(at.ended.empty());
      at.router->ask_again();
    }
    REQUIRE(at.loop.until([&] { return client.ended == 1; }));
    CHECK(client.failed == BrokerSocket::Failure::unauthorised);
    CHECK(at.ended.size() == 1);
    // libzmq's understands it, too.
    zmq::socket_t dealer(at.loop.context, zmq::socket_type::dealer);
    dealer.set(zmq::sockopt::linger, 0);
    at.give_keys(dealer);
    SocketMonitor monitor(at.loop.context, dealer, ZMQ_EVENT_HANDSHAKE_FAILED_AUTH);
    at.waits_for_verdict = false;
    dealer.connect(at.endpoint);
    std::optional<SocketMonitor::Event> event;
    REQUIRE(at.loop.until([&] { return (event = monitor.next()).has_value(); }));
    CHECK(event->value == 400);
  }
  SUBCASE("authorised after a second look") {
    at.waits_for_verdict = true;
    const auto keys = at.keys();
    ZmtpClient client(at.loop, at.endpoint, &keys);
    REQUIRE(at.loop.until([&] { return !at.asked.empty(); }));
    at.router->ask_again();
    client.up().send({"in"});
    REQUIRE(at.loop.until([&] { return client.received.size() == 1; }));
  }
  SUBCASE("one that leaves while it waits for the verdict") {
    at.waits_for_verdict = true;
    {
      const auto keys = at.keys();
      ZmtpClient client(at.loop, at.endpoint, &keys);
      REQUIRE(at.loop.until([&] { return !at.asked.empty(); }));
    }
    at.loop.run_for(50ms);
    at.router->ask_again();
    REQUIRE(at.loop.until([&] { return at.ended.size() == 1; }));
  }
  SUBCASE("the key of another host") {
    auto keys = at.keys();
    keys.server_key = TextKeys().public_key;
    ZmtpClient client(at.loop, at.endpoint, &keys);
    REQUIRE(at.loop.until([&] { return client.ended == 1; }));
    CHECK(client.failed == BrokerSocket::Failure::silent);
    CHECK(at.ended.begin()->second == "knows another key for this host");
    CHECK(at.asked == "");
  }
  SUBCASE("none") {
    ZmtpClient client(at.loop, at.endpoint);
    REQUIRE(at.loop.until([&] { return client.ended == 1; }));
    CHECK(client.failed == BrokerSocket::Failure::mechanism);
  }
  SUBCASE("a message in clear after the handshake") {
    RawCurve peer(at.loop, std::to_string(at.port), at.own, at.client);
    peer.up();
    REQUIRE(peer.connection.write(zmtp_frame("in clear", false)));
    REQUIRE(at.loop.until([&] { return at.ended.size() == 1; }));
    CHECK(at.ended.begin()->second == "sent a message that was changed on its way, or repeated");
  }
  SUBCASE("a message twice") {
    RawCurve peer(at.loop, std::to_string(at.port), at.own, at.client);
    const std::string message = peer.up().message("once", false);
    REQUIRE(peer.connection.write(message + message));
    REQUIRE(at.loop.until([&] { return at.ended.size() == 1; }));
    CHECK(at.sent_back == 1);
    CHECK(at.ended.begin()->second == "sent a message that was changed on its way, or repeated");
  }
}

TEST_CASE("zmtp server: before it authenticates a connection may send 8 KiB, and has its time") {
  for (const bool has_keys : {false, true}) {
    CAPTURE(has_keys);
    TcpRouter at(has_keys, {.handshake = 700ms});
    std::string greeting = zmtp_greeting();
    if (has_keys) greeting.replace(12, 5, "CURVE");
    RawConnection large(std::to_string(at.port)), slow(std::to_string(at.port));
    REQUIRE(slow.write(greeting + zmtp_long_header(4000, 4)));
    REQUIRE(large.write(greeting + zmtp_long_header(8200, 4) + std::string(8000, 'x')));
    REQUIRE(at.loop.until([&] { return at.ended.size() == 1; }));
    CHECK(at.ended.begin()->second ==
          "sent a part of 8200 bytes, too many before its handshake is over");
    REQUIRE(at.loop.until([&] { return at.ended.size() == 2; }));
    CHECK(at.ended[at.accepted[at.ended.contains(at.accepted[0]) ? 0 : 1]] != "");
    CHECK(std::ranges::any_of(at.ended, [](const auto& end) {
      return end.second == "did not end its handshake in time";
    }));
  }
}

TEST_CASE("zmtp server: a message that is never ended costs so much, so long, and no more") {
  TcpRouter at(true, {.message = 700ms});
  const std::string port = std::to_string(at.port);
  RawCurve many(at.loop, port, at.own, at.client), large(at.loop, port, at.own, at.client),
      slow(at.loop, port, at.own, at.client);
  many.up();
  large.up();
  slow.up();
  // The last part never comes.
  std::string parts;
  for (std::size_t i = 0; i <= kMostParts; ++i) parts += many.message("p", true);
  REQUIRE(many.connection.write(parts));
  REQUIRE(at.loop.until([&] { return at.ended.size() == 1; }));
  CHECK(at.ended.begin()->second == "sent a message of more than 1024 parts");
  const std::string part = large.message(std::string(kPartLimit, 'l'), true) +
                           large.message(std::string(kPartLimit, 'l'), true);
  std::string_view rest = part;
  REQUIRE(at.loop.until([&] {
    rest.remove_prefix(large.connection.write_some(rest));
    return at.ended.size() == 2;
  }));
  REQUIRE(slow.connection.write(slow.message("first", true)));
  REQUIRE(at.loop.until([&] { return at.ended.size() == 3; }));
  CHECK(std::ranges::any_of(at.ended, [](const auto& end) {
    return end.second == "did not end a message within 700 ms";
  }));
}

TEST_CASE("zmtp server: strangers that wait for nothing make room for others, and are few") {
  TcpRouter at(true, {.pool = {.all = 20, .per_network = 20}});
  std::vector<RawConnection> strangers;
  for (int i = 0; i < 100; ++i) {
    strangers.emplace_back(std::to_string(at.port));
    if (i % 2 == 0) strangers.back().write(std::string(10, '\xff'));
    at.loop.reactor.turn(0ms);
  }
  REQUIRE(at.loop.until([&] { return at.ended.size() == 80; }));
  CHECK(at.router->crowded_out() == 80);
  // Keys come in all the same, and stay.
  const auto keys = at.keys();
  ZmtpClient client(at.loop, at.endpoint, &keys);
  client.up();
  for (int i = 0; i < 50; ++i) strangers.emplace_back(std::to_string(at.port));
  at.loop.run_for(50ms);
  client.send({"still there"});
  REQUIRE(at.loop.until([&] { return client.received.size() == 1; }));
  client.connection.reset();
}

TEST_CASE("zmtp server: a flood of handshakes leaves most of the time to others") {
  TcpRouter at(true, {.pool = {.all = 1000, .per_network = 1000}});
  const auto keys = at.keys();
  ZmtpClient client(at.loop, at.endpoint, &keys);
  client.up();
  std::vector<std::unique_ptr<RawCurve>> flood;
  for (int i = 0; i < 300; ++i)
    flood.push_back(
        std::make_unique<RawCurve>(at.loop, std::to_string(at.port), at.own, at.client));
  // What is known of their first command is work for all of them at once; a turn does one.
  const auto begin = Reactor::Clock::now();
  Reactor::Duration longest{0};
  client.send({"beside them"});
  while (client.received.empty()) {
    const auto turn = Reactor::Clock::now();
    at.loop.reactor.turn(5ms);
    longest = std::max(longest, Reactor::Clock::now() - turn);
    REQUIRE(Reactor::Clock::now() - begin < 20s);
  }
  std::size_t answered = 0;
  for (const auto& one : flood) answered += one->connection.read_some().size() > 64 ? 1U : 0U;
  CHECK(answered < flood.size() / 2);  // its answer did not wait for theirs
  client.connection.reset();
}
