// Large bodies (spec 9.2), in chunks and as shared memory, seen from the two peers of a broker.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "common/bus/arrival.h"
#include "common/bus/share_inbox.h"
#include "tests/world/broker.h"
#include "tests/world/hello.h"
#include "tests/world/peer.h"
#include "tests/world/raw_peer.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

constexpr std::size_t kSize = 3 * 1024 * 1024 + 5;

SharedBody body() {
  return SharedBody::of(std::string(kSize, 'b'));
}

/// In sealed memory.
SharedBody shared_body() {
  auto body = SharedBody::copy(std::string(kSize, 'b'));
  REQUIRE(body.descriptor() >= 0);
  return body;
}

struct Pair {
  explicit Pair(std::uint64_t limit = kBodyLimit) {
    a.up();
    b.up();
    a.bus->set_body_limit(kSize);
    b.bus->set_body_limit(limit);
  }
  /// Sends it from a to b and waits until b has so many messages.
  void send(const SharedBody& what, std::size_t messages = 1) {
    Arrival arrival;
    a.bus->send_large(b.address(), 1, what, arrival);
    REQUIRE(host.loop.until([&] { return b.received.size() == messages; }));
    CHECK((b.received.back().second == what.bytes()));
    CHECK(arrival.wait(kSize, 0ms).has_value());
    CHECK(a.bus->large_under_way() == 0);
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

TEST_CASE("large bodies: on one host they are mapped where the sender put them, and counted") {
  Pair peers(kSize);
  peers.send(shared_body());
  CHECK(peers.b.bus->intake().mapped() == 1);
  CHECK(peers.b.bus->intake().inbox().count() == 0);
  check_conservation(peers.host.loop, *peers.host.broker);
  // Plain memory goes in chunks.
  peers.send(body(), 2);
  CHECK(peers.b.bus->intake().mapped() == 1);
  // A call and its answer are copied into sealed memory.
  const std::string text(kSize - 4, 'c');
  CHECK((peers.a.call(peers.b.address(), text).value() == "re: " + text));
  CHECK(peers.b.bus->intake().mapped() == 2);
  CHECK(peers.a.bus->intake().mapped() == 1);
  check_conservation(peers.host.loop, *peers.host.broker);
}

TEST_CASE("large bodies: shared ones are bounded as others are, and end as others do") {
  Pair peers;
  {
    Arrival arrival;
    peers.a.bus->send_large(peers.b.address(), 1, shared_body(), arrival);
    REQUIRE(peers.host.loop.until([&] { return peers.a.bus->large_under_way() == 0; }));
    CHECK(arrival.wait(kSize, 0ms).error().detail() ==
          "a body of 3145733 bytes; the receiver takes at most 1048576 (setting message.limit)");
  }
  peers.b.bus->set_body_limit(kSize);
  {
    Arrival arrival;
    peers.a.bus->send_large(peers.b.address(), 1, shared_body(), arrival);
    CHECK(arrival.wait(kSize, 0ms).error().code() == ErrorCode::fate_unknown);
  }
  REQUIRE(peers.host.loop.until([&] { return peers.a.bus->large_under_way() == 0; }));
  CHECK(peers.b.received.empty());
  // What was reserved for it is free again.
  peers.send(shared_body());
  CHECK(peers.b.bus->intake().mapped() == 1);
  // The receiver goes, and then the broker.
  const auto gone = peers.b.address();
  peers.b.bus->close("the test is over");
  {
    Arrival arrival;
    peers.a.bus->send_large(gone, 1, shared_body(), arrival);
    REQUIRE(peers.host.loop.until([&] { return peers.a.bus->large_under_way() == 0; }));
    CHECK(arrival.wait(kSize, 0ms).error().code() == ErrorCode::no_such_proc);
  }
  Arrival arrival;
  peers.a.bus->send_large(gone, 1, shared_body(), arrival);
  peers.host.broker.reset();
  REQUIRE(peers.host.loop.until([&] { return peers.a.bus->large_under_way() == 0; }));
  CHECK_FALSE(arrival.wait(kSize, 0ms).has_value());
}

TEST_CASE("large bodies: a receiver whose inbox is of another user gets chunks") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can act as another user");
    return;
  }
  Pair peers(kSize);
  // The inbox is made with the first body, and belongs to its maker.
  REQUIRE(::seteuid(65534) == 0);
  peers.send(shared_body());
  REQUIRE(::seteuid(0) == 0);
  CHECK(peers.b.bus->intake().mapped() == 1);
  peers.send(shared_body(), 2);
  CHECK(peers.b.bus->intake().mapped() == 1);
  check_conservation(peers.host.loop, *peers.host.broker);
}

TEST_CASE("large bodies: memory that its sender could still change is never mapped") {
  Pair peers(kSize);
  RawPeer hostile(peers.host.loop, peers.host.endpoint());
  REQUIRE(hostile.greet(launcher_hello()) == "Welcome");
  std::uint64_t number = 0;
  const auto share = [&](std::uint64_t transfer, const ShareTicket& ticket) {
    const wire::CallHeader call(++number, 10'000, wire::ErrorCode::none, 0);
    const wire::ShareHeader header(transfer, kSize, ticket.first, ticket.second);
    std::string bytes(reinterpret_cast<const char*>(&call), sizeof call);
    bytes.append(bytes_of(&header, sizeof header));
    auto envelope = peers.b.address().envelope(0, wire::Kind::call, wire::Lane::data, kFlagShare);
    envelope.mutate_sequence(number);
    hostile.send_message(envelope, bytes);
    auto answer = hostile.next();
    REQUIRE(answer.has_value());
    REQUIRE(answer->second.size() >= sizeof call);
    wire::CallHeader answered;
    std::memcpy(static_cast<void*>(&answered), answer->second.data(), sizeof answered);
    CHECK(answered.id() == number);
    return std::pair(from_wire(answered.code()), answer->second.substr(sizeof answered));
  };
  const auto [none, address] = share(1, {});
  CHECK(none == ErrorCode::none);
  const UniqueFd open(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(open.get(), kSize) == 0);
  REQUIRE(ShareInbox::put(address, {1, 1}, open.get()).has_value());
  CHECK(share(1, {1, 1}).second == "a descriptor that is no sealed memory");
  CHECK(share(1, {1, 1}).second == "no descriptor has come with that ticket");
  const SharedBody sealed = shared_body();
  REQUIRE(ShareInbox::put(address, {2, 2}, sealed.descriptor()).has_value());
  CHECK(share(2, {2, 2}).first == ErrorCode::malformed_message);  // no room was reserved
  CHECK(share(1, {}).first == ErrorCode::malformed_message);      // twice
  CHECK(peers.b.bus->intake().mapped() == 0);
  CHECK(peers.b.bus->intake().inbox().count() == 0);
  peers.send(shared_body());
  CHECK(peers.b.bus->intake().mapped() == 1);
}
