// Two brokers may have a connection each way. What one of them says last is heard, by whichever it
// comes, and whichever ends first.
#include <doctest/doctest.h>

#include <zmq.hpp>

#include "common/loop/zmq_watch.h"
#include "tests/integration/keys/fixture.h"
#include "tests/world/broker.h"
#include "tests/world/hello.h"
#include "tests/world/linked_brokers.h"
#include "tests/world/peer.h"
#include "tests/world/raw_peer.h"
#include "wire/bus_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kIncarnation = 5;

/// Another host, as the brokers that connect to it see it: it answers Hello, and says what the test
/// wants.
class OtherHost {
 public:
  explicit OtherHost(Loop& loop) : loop_(loop), socket_(loop.context, zmq::socket_type::router) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.bind("tcp://127.0.0.1:*");
    const auto endpoint = socket_.get(zmq::sockopt::last_endpoint);
    address.emplace(*HostAddr::parse("tcp:127.0.0.1:" + endpoint.substr(endpoint.rfind(':') + 1)));
    watch_zmq(loop.reactor, socket_.handle(), [this] { return on_readable(); });
  }
  ~OtherHost() { loop_.reactor.forget_socket(socket_.handle()); }

  /// To the broker that has connected.
  void say(const wire::Envelope& envelope, const std::string& body, std::uint64_t number = 0) {
    FrameWriter writer(envelope.lane(), /*link=*/true);
    writer.add(envelope, body);
    Frame frame = writer.finish();
    frame.set_link(number, 0);
    REQUIRE(frame.parts.size() == 1);
    socket_.send(zmq::buffer(peer_), zmq::send_flags::sndmore);
    socket_.send(zmq::buffer(frame.parts.front().view()), zmq::send_flags::none);
  }
  bool is_connected() const { return !peer_.empty(); }

  std::optional<HostAddr> address;

 private:
  bool on_readable() {
    zmq::message_t part;
    if (!socket_.recv(part, zmq::recv_flags::dontwait)) return false;
    const bool is_first = peer_.empty();
    if (is_first) peer_ = part.to_string();
    while (socket_.get(zmq::sockopt::rcvmore)) (void)socket_.recv(part);
    if (!is_first) return true;
    wire::WelcomeT welcome;
    welcome.version = kProtocolVersion;
    welcome.host = address->to_string();
    welcome.incarnation = kIncarnation;
    welcome.capabilities = kCapabilityResume;
    welcome.heartbeat_ms = 5000;
    wire::Envelope envelope;
    envelope.mutate_role(Role::broker);
    say(envelope, encode_control({}, std::move(welcome)));
    return true;
  }

  Loop& loop_;
  zmq::socket_t socket_;
  std::string peer_;
};

void say_bye(OtherHost& other) {
  wire::Envelope envelope;
  envelope.mutate_role(Role::broker);
  other.say(envelope, encode_control({}, wire::ByeT{{}, "over"}));
}

}  // namespace

TEST_CASE("links: a Bye by one connection ends nothing that is still said by the other one") {
  const LogLines log;
  LinkedBrokers pair;
  const auto endpoint = endpoint_of(*pair.brokers[0]);
  OtherHost other(pair.loop);
  TestPeer receiver(pair.loop, endpoint, launcher_hello());
  receiver.up();
  // A message to that host makes our broker connect to it.
  const auto nobody =
      Destination::to(*ProcId::parse(other.address->to_string() + ",nobody-13Se1Maqzryj"));
  REQUIRE(receiver.bus->send(nobody, 1, "x", /*no_return=*/true));
  REQUIRE(pair.loop.until([&] { return log.count("is up") > 0; }));
  RawPeer inbound(pair.loop, endpoint);
  auto hello = hello_of(wire::PeerKind::link, other.address->to_string(), kIncarnation);
  hello.capabilities = kCapabilityResume;
  inbound.tell(hello, 0, /*link=*/true);
  REQUIRE(inbound.next_control()->body_name() == "Welcome");

  wire::Envelope words;
  words.mutate_destination_proc(receiver.bus->self()->key());
  words.mutate_source_proc(77);
  words.mutate_source_host(other.address->key());
  words.mutate_kind(wire::Kind::message);
  words.mutate_lane(wire::Lane::data);
  words.mutate_flags(kFlagNoReturn);
  FrameWriter writer(wire::Lane::data, /*link=*/true);
  writer.add(words, "last words");
  Frame frame = writer.finish();
  frame.set_link(1, 0);
  SUBCASE("said by the connection that they have made") {
    say_bye(other);
    const auto lost = "the link to " + other.address->to_string() + " is lost";
    REQUIRE(log.count(lost) == 0);
    REQUIRE(pair.loop.until([&] { return log.count(lost) == 1; }));
    inbound.send(frame);
    inbound.tell(wire::ByeT{{}, "over"}, 0, /*link=*/true);
  }
  SUBCASE("said by the connection that we have made") {
    const auto peers = pair.brokers[0]->peers();
    inbound.tell(wire::ByeT{{}, "over"}, 0, /*link=*/true);
    REQUIRE(pair.loop.until([&] { return pair.brokers[0]->peers() == peers - 1; }));
    other.say(words, "last words", 1);
    say_bye(other);
  }
  REQUIRE(pair.loop.until([&] { return !receiver.received.empty(); }));
  CHECK(receiver.received.front().second == "last words");
  // Then it is over, and that incarnation does not come back.
  CHECK(pair.loop.until([&] { return log.count("it has ended in order") == 1; }));
}
