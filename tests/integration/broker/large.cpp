// Bodies that travel in chunks (spec 9.2), seen from the two peers of a broker.
#include <string>

#include "common/bus/arrival.h"
#include "tests/world/broker.h"
#include "tests/world/hello.h"
#include "tests/world/peer.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

constexpr std::size_t kSize = 3 * 1024 * 1024 + 5;

SharedBody body() {
  return SharedBody::of(std::string(kSize, 'b'));
}

struct Pair {
  Pair() {
    a.up();
    b.up();
  }
  LocalBroker host;
  TestPeer a{host.loop, host.endpoint(), launcher_hello()};
  TestPeer b{host.loop, host.endpoint(), launcher_hello()};
};

}  // namespace

TEST_CASE("large bodies: they are put together whole, and every message is accounted for") {
  Pair peers;
  peers.b.bus->set_body_limit(kSize);
  peers.a.bus->set_body_limit(kSize);
  Arrival arrival;
  peers.a.bus->send_large(peers.b.address(), 1, body(), arrival);
  CHECK(peers.a.bus->large_under_way() == 1);
  REQUIRE(peers.host.loop.until([&] { return peers.b.received.size() == 1; }));
  CHECK((peers.b.received[0].second == std::string(kSize, 'b')));
  CHECK(arrival.wait(kSize, 0ms).has_value());
  CHECK(peers.a.bus->large_under_way() == 0);
  CHECK(peers.a.bus->traffic().no_return == 0);
  check_conservation(peers.host.loop, *peers.host.broker);
}

TEST_CASE("large bodies: what a receiver does not take is said with both sizes") {
  Pair peers;
  peers.a.bus->set_body_limit(kSize);
  Arrival arrival;
  peers.a.bus->send_large(peers.b.address(), 1, body(), arrival);
  REQUIRE(peers.host.loop.until([&] { return peers.a.bus->large_under_way() == 0; }));
  const auto sent = arrival.wait(kSize, 0ms);
  REQUIRE_FALSE(sent.has_value());
  CHECK(sent.error().code() == ErrorCode::too_large);
  CHECK(sent.error().detail() ==
        "a body of 3145733 bytes; the receiver takes at most 1048576 (setting message.limit)");
}

TEST_CASE("large bodies: one that nobody waits for any more ends, and so does one without a bus") {
  Pair peers;
  peers.b.bus->set_body_limit(kSize);
  peers.a.bus->set_body_limit(kSize);
  {
    Arrival arrival;
    peers.a.bus->send_large(peers.b.address(), 1, body(), arrival);
    CHECK(arrival.wait(kSize, 0ms).error().code() == ErrorCode::fate_unknown);
  }
  REQUIRE(peers.host.loop.until([&] { return peers.a.bus->large_under_way() == 0; }));
  CHECK(peers.b.received.empty());
  // The broker goes: nothing leaves, and the wait ends with the bus.
  Arrival arrival;
  peers.host.broker.reset();
  peers.a.bus->send_large(peers.b.address(), 1, body(), arrival);
  peers.a.bus->close("the test is over");
  const auto sent = arrival.wait(kSize, std::chrono::seconds(10));
  REQUIRE_FALSE(sent.has_value());
  CHECK(sent.error().code() == ErrorCode::fate_unknown);
}
