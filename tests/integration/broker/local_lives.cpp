// One broker, over a unix socket: its peers and itself end, come back, and are missed.
#include <doctest/doctest.h>

#include <thread>

#include "tests/support/sanitizer_scale.h"
#include "tests/support/stopwatch.h"
#include "tests/support/temp_dir.h"
#include "tests/world/broker.h"
#include "tests/world/hello.h"
#include "tests/world/loop.h"
#include "tests/world/peer.h"
#include "tests/world/raw_peer.h"
#include "tests/world/strangers_zmtp.h"
#include "wire/bus_generated.h"
#include "wire/control_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

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
  for (const auto& part : writer.finish().parts) parts.emplace_back(part.view());
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
