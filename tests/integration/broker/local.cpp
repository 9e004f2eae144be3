// One broker and its peers, over a unix socket.
#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

#include "meshbus/key.h"
#include "tests/support/sanitizer_scale.h"
#include "tests/support/stopwatch.h"
#include "tests/support/temp_dir.h"
#include "tests/world/broker.h"
#include "tests/world/hello.h"
#include "tests/world/loop.h"
#include "tests/world/peer.h"
#include "tests/world/raw_peer.h"
#include "tests/world/session_options.h"
#include "tests/world/strangers_zmtp.h"
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

TEST_CASE("broker: what is for a proc that never registered waits, then comes back saying so") {
  LocalBroker host(Setting("delivery.starting", "300ms"));
  TestPeer launcher(host.loop, host.endpoint(), launcher_hello());
  launcher.up();
  const auto hello = proc_hello(host.broker->address(), 1);
  const auto to = Destination::to(*ProcId::parse(hello.peer));
  const auto begin = std::chrono::steady_clock::now();
  const auto lost = launcher.call(to, "anybody there?");
  REQUIRE_FALSE(lost.has_value());
  CHECK(lost.error().code() == ErrorCode::no_such_proc);
  CHECK(lost.error().detail().find("delivery.starting") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - begin >= 300ms);
  CHECK(host.broker->counters().returned == 1);

  // One that registers in time gets what waited for it, in order.
  for (const char* body : {"a", "b", "c"}) REQUIRE(launcher.bus->send(to, 1, body).has_value());
  REQUIRE(host.loop.until([&] { return host.broker->held() == 3; }));
  TestPeer proc(host.loop, host.endpoint(), hello);
  proc.up();
  REQUIRE(host.loop.until([&] { return proc.received.size() == 3; }));
  CHECK(proc.received[0].second == "a");
  CHECK(proc.received[2].second == "c");
  CHECK(launcher.returned.empty());
  check_conservation(host.loop, *host.broker);
}

TEST_CASE(
    "broker: what is for a controller comes back at once when there is none: nobody is starting "
    "one") {
  LocalBroker host(Setting("delivery.starting", "60s"));
  TestPeer launcher(host.loop, host.endpoint(), launcher_hello());
  launcher.up();
  const ProcId controller(host.broker->address(), ProcName(Name::controller()));
  const auto lost = launcher.call(Destination::to(controller), "anybody there?", 5s);
  REQUIRE_FALSE(lost.has_value());
  CHECK(lost.error().code() == ErrorCode::no_such_proc);
  CHECK(lost.error().detail().find("no controller has registered at " +
                                   host.broker->address().to_string()) != std::string::npos);
  check_conservation(host.loop, *host.broker);
}

TEST_CASE("broker: what is for a proc that has left comes back at once") {
  LocalBroker host(Setting("delivery.starting", "60s"));
  TestPeer launcher(host.loop, host.endpoint(), launcher_hello());
  launcher.up();
  auto proc =
      std::make_unique<TestPeer>(host.loop, host.endpoint(), proc_hello(host.broker->address(), 1));
  proc->up();
  const auto to = proc->address();
  CHECK(launcher.call(to, "x").has_value());
  proc.reset();
  REQUIRE(host.loop.until([&] { return host.broker->peers() == 1; }));
  const auto lost = launcher.call(to, "x", 5s);
  REQUIRE_FALSE(lost.has_value());
  CHECK(lost.error().code() == ErrorCode::no_such_proc);
  // Also when it is a message without an answer.
  REQUIRE(launcher.bus->send(to, 1, "y").has_value());
  REQUIRE(host.loop.until([&] { return launcher.returned.size() == 1; }));
  CHECK(launcher.returned[0].second.code() == ErrorCode::no_such_proc);
  CHECK(launcher.returned[0].first.destination_proc() == to.proc);
  check_conservation(host.loop, *host.broker);
}

TEST_CASE("broker: a message that must not come back is dropped and counted") {
  LocalBroker host;
  RawPeer peer(host.loop, host.endpoint());
  REQUIRE(peer.greet(launcher_hello()) == "Welcome");
  wire::Envelope envelope;
  envelope.mutate_destination_host(999);
  envelope.mutate_destination_proc(1);
  envelope.mutate_kind(wire::Kind::message);
  envelope.mutate_flags(kFlagNoReturn);
  peer.send_message(envelope, "x");
  REQUIRE(host.loop.until([&] { return host.broker->counters().all_dropped() == 1; }));
  envelope.mutate_flags(0);
  envelope.mutate_sequence(4711);
  peer.send_message(envelope, "x");
  const auto answer = peer.next_control();
  REQUIRE(answer.has_value());
  const auto* undeliverable = answer->body_as<wire::Undeliverable>();
  REQUIRE(undeliverable != nullptr);
  CHECK(undeliverable->code() == wire::ErrorCode::no_such_host);
  CHECK(undeliverable->envelope()->sequence() == 4711);
  CHECK(host.broker->counters().dropped[static_cast<std::size_t>(Drop::no_return)] == 1);
  check_conservation(host.loop, *host.broker);
}

TEST_CASE("broker: bodies of all sizes arrive as they were") {
  LocalBroker host;
  TestPeer a(host.loop, host.endpoint(), launcher_hello());
  TestPeer b(host.loop, host.endpoint(), launcher_hello());
  a.up();
  b.up();
  const std::size_t sizes[] = {0,
                               1,
                               7,
                               8,
                               9,
                               kInlineLimit - 1,
                               kInlineLimit,
                               kInlineLimit + 1,
                               256 * 1024,
                               kBodyLimit - 1,
                               kBodyLimit};
  std::vector<std::string> bodies;
  for (const std::size_t size : sizes) {
    std::string body(size, '\0');
    for (std::size_t i = 0; i < size; ++i) body[i] = static_cast<char>((i * 31 + size) & 0xff);
    REQUIRE(a.bus->send(b.address(), 1, body).has_value());
    bodies.push_back(std::move(body));
  }
  REQUIRE(host.loop.until([&] { return b.received.size() == bodies.size(); }));
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    CHECK(b.received[i].second == bodies[i]);
    CHECK(b.received[i].first.length() == bodies[i].size());
  }
  const auto too_large = a.bus->send(b.address(), 1, std::string(kBodyLimit + 1, 'x'));
  REQUIRE_FALSE(too_large.has_value());
  CHECK(too_large.error().code() == ErrorCode::too_large);
  check_conservation(host.loop, *host.broker);
}

TEST_CASE("broker: a peer that does not read fills its own queue only, and its senders are told") {
  LocalBroker host(Setting("queue.bytes", "1MiB"));
  TestPeer a(host.loop, host.endpoint(), launcher_hello());
  TestPeer b(host.loop, host.endpoint(), launcher_hello());
  a.up();
  b.up();
  RawPeer frozen(host.loop, host.endpoint());
  const auto hello = launcher_hello();
  REQUIRE(frozen.greet(hello) == "Welcome");
  const auto to = Destination::to(ProcId(host.broker->address(), *ProcName::parse(hello.peer)));
  const std::string body(10000, 'x');
  // By their ports it is known which ones come back.
  for (std::uint32_t i = 1; i <= 400; ++i) REQUIRE(a.bus->send(to, i, body).has_value());
  REQUIRE(host.loop.until([&] { return !a.returned.empty(); }));
  CHECK(a.returned[0].second.code() == ErrorCode::queue_full);
  // The window (512 KiB) and the queue (1 MiB), and what packing adds at their ends.
  CHECK(a.returned[0].first.port() > 140);
  CHECK(a.returned[0].first.port() < 300);
  CHECK(a.call(b.address(), "meanwhile") == "re: meanwhile");
  // Control reaches it past the data: it lies in a lane of its own.
  wire::WatchT watch;
  watch.proc = a.bus->self()->to_string();
  frozen.tell(watch, 5);
  bool answered = false;
  std::size_t data = 0;
  while (!answered) {
    const auto message = frozen.next();
    REQUIRE(message.has_value());
    answered = message->first.kind() == wire::Kind::control;
    data += answered ? 0 : 1;
  }
  CHECK(data < 250);
  check_conservation(host.loop, *host.broker);
}

TEST_CASE("broker: Watch is answered, and Gone comes within 100 ms of the end") {
  LocalBroker host;
  TestPeer watcher(host.loop, host.endpoint(), launcher_hello());
  watcher.up();
  const auto hello = proc_hello(host.broker->address(), 1);
  auto proc = std::make_unique<RawPeer>(host.loop, host.endpoint());
  REQUIRE(proc->greet(hello) == "Welcome");
  wire::WatchT watch;
  watch.proc = hello.peer;
  const auto answer = watcher.ask(Destination::to_broker(), watch);
  REQUIRE(answer.has_value());
  CHECK(answer->body_name() == "Ack");
  host.loop.run_for(50ms);
  CHECK(watcher.gone.empty());
  const Stopwatch since;
  proc.reset();
  REQUIRE(host.loop.until([&] { return !watcher.gone.empty(); }));
  CHECK(since.elapsed() < 100ms * slowness);
  CHECK(watcher.gone[0].proc == hello.peer);
  CHECK(watcher.gone[0].incarnation == hello.incarnation);
  CHECK(watcher.gone[0].request == (*answer)->id());

  // One that is not registered is gone already; one of another host is not ours to watch.
  REQUIRE(watcher.ask(Destination::to_broker(), watch).has_value());
  REQUIRE(host.loop.until([&] { return watcher.gone.size() == 2; }));
  watch.proc = "unix:/somewhere/else,service";
  const auto refused = watcher.ask(Destination::to_broker(), watch);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == ErrorCode::unroutable);
  CHECK(watcher.gone.size() == 2);
}

TEST_CASE("broker: what a peer sent before it left is delivered, and Gone comes after it") {
  LocalBroker host;
  TestPeer watcher(host.loop, host.endpoint(), launcher_hello());
  watcher.up();
  for (std::uint64_t round = 0; round < 20; ++round) {
    const auto hello = proc_hello(host.broker->address(), 100 + round);
    auto proc = std::make_unique<TestPeer>(host.loop, host.endpoint(), hello);
    proc->up();
    wire::WatchT watch;
    watch.proc = hello.peer;
    REQUIRE(watcher.ask(Destination::to_broker(), watch).has_value());
    for (int i = 0; i < 50; ++i)
      REQUIRE(proc->bus->send(watcher.address(), 1, "last words").has_value());
    proc->bus->close("done");
    REQUIRE(host.loop.until([&] { return watcher.gone.size() == round + 1; }));
    // Within the receiver control goes before data, which it hands out in slices of time.
    CHECK(host.loop.until([&] { return watcher.received.size() == 50 * (round + 1); }));
  }
}

TEST_CASE("broker: another life takes the place of the old one, which is refused afterwards") {
  LocalBroker host;
  TestPeer watcher(host.loop, host.endpoint(), launcher_hello());
  watcher.up();
  TestPeer replaced(host.loop, host.endpoint(), proc_hello(host.broker->address(), 1, 11));
  replaced.up();
  wire::WatchT watch;
  watch.proc = replaced.bus->self()->to_string();
  REQUIRE(watcher.ask(Destination::to_broker(), watch).has_value());
  TestPeer restarted(host.loop, host.endpoint(), proc_hello(host.broker->address(), 1, 12));
  restarted.up();
  REQUIRE(host.loop.until([&] { return watcher.gone.size() == 1; }));
  CHECK(watcher.gone[0].incarnation == 11);
  CHECK(watcher.call(restarted.address(), "who?").has_value());
  CHECK(restarted.received.size() == 1);
  CHECK(replaced.received.empty());
  REQUIRE(host.loop.until([&] { return replaced.refused.has_value(); }));
  CHECK(replaced.refused->code() == ErrorCode::identity_mismatch);
  CHECK(restarted.bus->is_up());
}

TEST_CASE("broker: the same life on a new connection goes on where it was") {
  LocalBroker host;
  TestPeer sender(host.loop, host.endpoint(), launcher_hello());
  sender.up();
  const auto hello = proc_hello(host.broker->address(), 1, 11);
  RawPeer first(host.loop, host.endpoint());
  REQUIRE(first.greet(hello) == "Welcome");
  wire::WatchT watch;
  watch.proc = hello.peer;
  REQUIRE(sender.ask(Destination::to_broker(), watch).has_value());
  TestPeer second(host.loop, host.endpoint(), hello);
  second.up();
  CHECK(sender.call(second.address(), "x") == "re: x");
  CHECK(sender.gone.empty());
  CHECK(host.broker->peers() == 2);
}

TEST_CASE("broker: a restarted broker takes everybody in again by their tokens") {
  Loop loop;
  TempDir dir;
  const std::string bind = "unix:" + (dir / "b");
  auto broker = start_broker(loop, bind);
  const HostAddr address = broker->address();
  TestPeer launcher(loop, endpoint_of(*broker), launcher_hello());
  TestPeer proc(loop, endpoint_of(*broker), proc_hello(address, 0));
  launcher.up();
  proc.up();
  broker->stop("a test");
  broker.reset();
  REQUIRE(loop.until([&] { return launcher.downs == 1 && proc.downs == 1; }));
  broker = start_broker(loop, bind);
  launcher.up();
  proc.up();
  CHECK(launcher.call(proc.address(), "again") == "re: again");
  CHECK(launcher.ups == 2);
}

TEST_CASE("broker: two brokers do not share a socket") {
  LocalBroker host;
  BrokerOptions options;
  options.binds = {host.broker->address()};
  const auto second = Broker::start(host.loop.reactor, host.loop.context, std::move(options));
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code() == ErrorCode::io_error);
  TestPeer peer(host.loop, host.endpoint(), launcher_hello());
  peer.up();
}

TEST_CASE("broker: idle peers and brokers keep hearing of each other") {
  LocalBroker host(Setting("heartbeat", "100ms"));
  TestPeer peer(host.loop, host.endpoint(), launcher_hello());
  peer.up();
  host.loop.run_for(1s);
  CHECK(peer.downs == 0);
  CHECK(peer.ups == 1);
  RawPeer silent(host.loop, host.endpoint());
  REQUIRE(silent.greet(launcher_hello()) == "Welcome");
  const auto heartbeat = silent.next_control();
  REQUIRE(heartbeat.has_value());
  CHECK(heartbeat->body_name() == "Heartbeat");
  // A local peer that says nothing stays.
  CHECK(host.broker->peers() == 2);
}

TEST_CASE("broker: 1000 peers register, talk, and are missed when they end") {
  LocalBroker host;
  TestPeer launcher(host.loop, host.endpoint(), launcher_hello());
  launcher.up();
  constexpr std::size_t kPeers = 1000;
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (std::size_t i = 0; i < kPeers; ++i) {
    peers.push_back(std::make_unique<RawPeer>(host.loop, host.endpoint()));
    peers.back()->tell(proc_hello(host.broker->address(), i));
  }
  REQUIRE(host.loop.until([&] { return host.broker->peers() == kPeers + 1; }));
  for (std::size_t i = 0; i < kPeers; ++i)
    REQUIRE(launcher.bus
                ->send(Destination::to(*ProcId::parse(proc_hello(host.broker->address(), i).peer)),
                       1, std::to_string(i))
                .has_value());
  for (std::size_t i = 0; i < kPeers; ++i) {
    std::optional<std::pair<wire::Envelope, std::string>> message;
    do {
      message = peers[i]->next();
      REQUIRE(message.has_value());
    } while (message->first.kind() != wire::Kind::message);
    CHECK(message->second == std::to_string(i));
  }
  wire::WatchT watch;
  for (std::size_t i = 0; i < kPeers; ++i) {
    watch.proc = proc_hello(host.broker->address(), i).peer;
    launcher.bus->request(Destination::to_broker(), watch, 20s,
                          [](const Result<ControlMessage>& answer) { CHECK(answer.has_value()); });
  }
  REQUIRE(host.loop.until([&] { return host.broker->counters().handled >= kPeers; }));
  peers.clear();
  REQUIRE(host.loop.until([&] { return launcher.gone.size() == kPeers; }));
  CHECK(host.broker->peers() == 1);
  check_conservation(host.loop, *host.broker);
}

TEST_CASE(
    "broker: its farewell reaches one whose socket is full, and so does all that was on the way") {
  LocalBroker host;
  TestPeer sender(host.loop, host.endpoint(), launcher_hello());
  sender.up();
  RawConnection slow(host.dir / "b");
  const auto hello = launcher_hello();
  FrameWriter writer(wire::Lane::control);
  writer.add(wire::Envelope(), encode_control({}, wire::HelloT(hello)));
  std::vector<std::string> parts;
  for (const auto& part : writer.finish().parts) parts.push_back(part.to_string());
  REQUIRE(slow.begin_handshake());
  REQUIRE(slow.send(parts));
  REQUIRE(host.loop.until([&] { return host.broker->peers() == 2; }));
  const auto to_slow =
      Destination::to(ProcId(host.broker->address(), *ProcName::parse(hello.peer)));
  const auto before = host.broker->counters().received;
  for (int i = 0; i < 15; ++i)
    REQUIRE(
        sender.bus->send(to_slow, 1, std::string(30'000, static_cast<char>('a' + i))).has_value());
  REQUIRE(host.loop.until([&] { return host.broker->counters().received >= before + 15; }));
  host.loop.run_for(5ms);
  std::string heard;
  // To the end: control goes before data, and what comes has headers as well.
  std::thread reader([&] { heard = slow.read_to_end(std::chrono::steady_clock::now() + 20s); });
  host.broker->stop("the host goes home");
  host.broker.reset();
  reader.join();
  CHECK_FALSE(slow.is_open());
  CHECK(heard.find("the host goes home") != std::string::npos);
  for (int i = 0; i < 15; ++i)
    CHECK(heard.find(std::string(30'000, static_cast<char>('a' + i))) != std::string::npos);
}
