// One broker, over a unix socket: what it delivers, and what comes back.
#include <doctest/doctest.h>

#include "tests/world/broker.h"
#include "tests/world/hello.h"
#include "tests/world/peer.h"
#include "tests/world/raw_peer.h"
#include "wire/bus_generated.h"
#include "wire/control_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

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
