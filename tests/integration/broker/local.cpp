// One broker and its peers, over a unix socket: names, roles and refusals.
#include <doctest/doctest.h>

#include "meshbus/key.h"
#include "tests/support/temp_dir.h"
#include "tests/world/broker.h"
#include "tests/world/hello.h"
#include "tests/world/loop.h"
#include "tests/world/peer.h"
#include "tests/world/raw_peer.h"
#include "tests/world/session_options.h"
#include "wire/bus_generated.h"
#include "wire/control_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

TEST_CASE("broker: peers register with their roles, and send and call each other both ways") {
  LocalBroker host;
  TestPeer launcher(host.loop, host.endpoint(), launcher_hello());
  TestPeer proc(host.loop, host.endpoint(), proc_hello(host.broker->address(), 0));
  launcher.up();
  proc.up();
  CHECK(launcher.role == Role::operate);
  CHECK(proc.role == Role::proc);
  CHECK(launcher.host == host.broker->address().to_string());
  CHECK(launcher.bus->self()->host() == host.broker->address());
  CHECK(host.broker->peers() == 2);

  CHECK(launcher.call(proc.address(), "hello") == "re: hello");
  CHECK(proc.call(launcher.address(), "hi") == "re: hi");
  REQUIRE(launcher.bus->send(proc.address(), 9, "one way").has_value());
  REQUIRE(host.loop.until([&] { return proc.received.size() == 2; }));
  const auto& [envelope, body] = proc.received[1];
  CHECK(body == "one way");
  CHECK(envelope.port() == 9);
  CHECK(envelope.hop() == 1);
  CHECK(envelope.source_proc() == launcher.bus->self()->key());
  CHECK(envelope.source_host() == host.broker->address().key());
  CHECK(envelope.role() == Role::operate);
  check_conservation(host.loop, *host.broker);
}

TEST_CASE("broker: the source of a message is what the peer has proven, not what it claims") {
  LocalBroker host;
  TestPeer receiver(host.loop, host.endpoint(), launcher_hello());
  receiver.up();
  RawPeer liar(host.loop, host.endpoint());
  auto hello = proc_hello(host.broker->address(), 3, 77);
  const std::uint64_t own_key = key_of(hello.peer);
  REQUIRE(liar.greet(hello) == "Welcome");
  wire::Envelope envelope;
  envelope.mutate_destination_proc(receiver.bus->self()->key());
  envelope.mutate_source_proc(12345);
  envelope.mutate_source_host(678);
  envelope.mutate_source_incarnation(9);
  envelope.mutate_role(Role::broker);
  envelope.mutate_hop(63);
  envelope.mutate_kind(wire::Kind::message);
  envelope.mutate_lane(wire::Lane::data);
  liar.send_message(envelope, "x");
  REQUIRE(host.loop.until([&] { return receiver.received.size() == 1; }));
  const wire::Envelope& got = receiver.received[0].first;
  CHECK(got.source_proc() == own_key);
  CHECK(got.source_host() == host.broker->address().key());
  CHECK(got.source_incarnation() == 77);
  CHECK(got.role() == Role::proc);
  CHECK(got.hop() == 1);
}

TEST_CASE("broker: who cannot prove itself is refused with a reason") {
  LocalBroker host;
  const HostAddr& address = host.broker->address();
  const auto refusal = [&](wire::HelloT hello) {
    TestPeer peer(host.loop, host.endpoint(), std::move(hello));
    REQUIRE(host.loop.until([&] { return peer.refused || peer.bus->is_up(); }));
    REQUIRE(peer.refused.has_value());
    return peer.refused->code();
  };
  auto hello = proc_hello(address, 0);
  hello.token.clear();
  CHECK(refusal(hello) == ErrorCode::unauthorised);
  hello = proc_hello(address, 0);
  hello.incarnation++;
  CHECK(refusal(hello) == ErrorCode::unauthorised);
  CHECK(refusal(proc_hello(*HostAddr::parse("unix:/somewhere/else"), 0)) ==
        ErrorCode::identity_mismatch);
  hello = launcher_hello();
  hello.version = 7;
  CHECK(refusal(hello) == ErrorCode::version_mismatch);
  CHECK(refusal(hello_of(wire::PeerKind::launcher, "controller")) == ErrorCode::unauthorised);
  CHECK(host.broker->peers() == 0);
  CHECK(host.broker->counters().refused_hellos == 5);
}

TEST_CASE(
    "broker: a name in use is not given to another launcher, and is free again when the first has "
    "left") {
  LocalBroker host;
  const auto hello = launcher_hello();
  auto first = std::make_unique<TestPeer>(host.loop, host.endpoint(), hello);
  first->up();
  auto other = hello;
  other.incarnation++;
  TestPeer second(host.loop, host.endpoint(), other);
  REQUIRE(host.loop.until([&] { return second.refused.has_value(); }));
  CHECK(second.refused->code() == ErrorCode::identity_mismatch);
  CHECK(first->bus->is_up());
  first.reset();
  REQUIRE(host.loop.until([&] { return host.broker->peers() == 0; }));
  TestPeer third(host.loop, host.endpoint(), other);
  third.up();
}

TEST_CASE("broker: the name that a connection chose for itself means nothing") {
  TempDir dir;
  Loop loop;
  const auto broker = start_broker(loop, "tcp:127.0.0.1:0", {}, [&](BrokerOptions& options) {
    options.insecure = true;
    options.binds.push_back(*HostAddr::parse("unix:" + (dir / "b")));
  });
  RawPeer first(loop, endpoint_of(*broker), "myself"), second(loop, endpoint_of(*broker), "myself"),
      third(loop, endpoint_of(*broker, 1), "myself");
  for (RawPeer* peer : {&first, &second, &third}) CHECK(peer->greet(launcher_hello()) == "Welcome");
  CHECK(broker->peers() == 3);
}

TEST_CASE("broker: messages before the Hello, and after a refusal, are counted and ignored") {
  LocalBroker host;
  TestPeer receiver(host.loop, host.endpoint(), launcher_hello());
  receiver.up();
  RawPeer stranger(host.loop, host.endpoint());
  wire::Envelope envelope;
  envelope.mutate_destination_proc(receiver.bus->self()->key());
  envelope.mutate_kind(wire::Kind::message);
  for (int i = 0; i < 100; ++i) stranger.send_message(envelope, "spam");
  wire::WatchT watch;
  watch.proc = receiver.bus->self()->to_string();
  stranger.tell(watch, 1);
  REQUIRE(host.loop.until([&] { return host.broker->counters().ignored_frames == 101; }));
  auto bad = launcher_hello();
  bad.version = 9;
  CHECK(stranger.greet(bad) == "Refusal");
  stranger.tell(launcher_hello());
  REQUIRE(host.loop.until([&] { return host.broker->counters().ignored_frames == 102; }));
  CHECK(host.broker->peers() == 1);
  CHECK(receiver.received.empty());
  // A peer that says Hello late is welcome.
  RawPeer late(host.loop, host.endpoint());
  late.send_message(envelope, "early");
  CHECK(late.greet(launcher_hello()) == "Welcome");
}

TEST_CASE("broker: two brokers do not share a socket") {
  LocalBroker host;
  BrokerOptions options;
  options.binds = {host.broker->address()};
  const auto second = Broker::start(host.loop.reactor, std::move(options));
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code() == ErrorCode::io_error);
  TestPeer peer(host.loop, host.endpoint(), launcher_hello());
  peer.up();
}
