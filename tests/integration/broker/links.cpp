// Brokers of different hosts, over unix sockets and tcp.
#include <doctest/doctest.h>

#include <algorithm>

#include "meshbus/key.h"
#include "tests/support/sanitizer_scale.h"
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

namespace {

struct Hosts {
  Hosts() : a(start(0)), b(start(1)) {}
  /// For tests in which no message may expire, on however busy a machine.
  explicit Hosts(std::chrono::milliseconds connect_limit)
      : delivery_limit("30s"),
        delivery_starting("30s"),
        a(start(0, connect_limit)),
        b(start(1, connect_limit)) {}
  std::unique_ptr<Broker> start(int index, std::chrono::milliseconds connect_limit = 1s) {
    return start_broker(
        loop, "unix:" + (dir / std::to_string(index)),
        {{"delivery.starting", delivery_starting},
         {"delivery.limit", delivery_limit},
         {"queue.bytes", "16MiB"}},
        [&](BrokerOptions& options) { options.link_connect_limit = connect_limit; });
  }

  TempDir dir;
  Loop loop;
  std::string delivery_limit = "1s";
  std::string delivery_starting = "300ms";
  std::unique_ptr<Broker> a;
  std::unique_ptr<Broker> b;
};

wire::Envelope message_to(const Destination& to) {
  wire::Envelope envelope;
  envelope.mutate_destination_proc(to.proc);
  envelope.mutate_destination_host(to.host);
  envelope.mutate_kind(wire::Kind::message);
  envelope.mutate_lane(wire::Lane::data);
  return envelope;
}

}  // namespace

TEST_CASE("broker: procs of two hosts call each other, over one link opened on first use") {
  Hosts hosts;
  TestPeer launcher(hosts.loop, endpoint_of(*hosts.a), launcher_hello());
  TestPeer proc(hosts.loop, endpoint_of(*hosts.b), proc_hello(hosts.b->address(), 0));
  launcher.up();
  proc.up();
  CHECK(hosts.b->peers() == 1);
  CHECK(launcher.call(proc.address(), "hello") == "re: hello");
  CHECK(proc.call(launcher.address(), "hi") == "re: hi");
  // The answer and the call back took the link that was there.
  CHECK(hosts.a->peers() == 1);
  CHECK(hosts.b->peers() == 2);
  const auto& envelope = proc.received[0].first;
  CHECK(envelope.hop() == 2);
  CHECK(envelope.source_host() == hosts.a->address().key());
  CHECK(envelope.source_proc() == launcher.bus->self()->key());
  CHECK(envelope.role() == Role::operate);
  check_conservation(hosts.loop, *hosts.a);
  check_conservation(hosts.loop, *hosts.b);
}

TEST_CASE("broker: messages over a link keep their order and sizes, both ways at once") {
  Hosts hosts;
  TestPeer x(hosts.loop, endpoint_of(*hosts.a), launcher_hello());
  TestPeer y(hosts.loop, endpoint_of(*hosts.b), launcher_hello());
  x.up();
  y.up();
  // Both open a link to the other in the same turn.
  const std::size_t sizes[] = {0, 64, kInlineLimit, kInlineLimit + 1, kBodyLimit};
  for (int round = 0; round < 4; ++round) {
    for (const std::size_t size : sizes) {
      const std::string body =
          std::to_string(round) + std::string(std::max<std::size_t>(size, 1) - 1, 'b');
      REQUIRE(x.bus->send(y.address(), 1, body).has_value());
      REQUIRE(y.bus->send(x.address(), 1, body).has_value());
    }
  }
  REQUIRE(hosts.loop.until([&] { return x.received.size() == 20 && y.received.size() == 20; }));
  for (const TestPeer* peer : {&x, &y}) {
    for (std::size_t i = 0; i < 20; ++i) {
      CHECK(peer->received[i].second.size() == std::max<std::size_t>(sizes[i % 5], 1));
      CHECK(peer->received[i].second[0] == static_cast<char>('0' + i / 5));
    }
    CHECK(peer->returned.empty());
  }
  check_conservation(hosts.loop, *hosts.a);
  check_conservation(hosts.loop, *hosts.b);
}

TEST_CASE("broker: what another host's broker cannot deliver comes back over the link") {
  Hosts hosts;
  TestPeer launcher(hosts.loop, endpoint_of(*hosts.a), launcher_hello());
  launcher.up();
  const auto lost = launcher.call(
      Destination::to(*ProcId::parse(hosts.b->address().to_string() + ",nobody-13Se1Maqzryj")),
      "x");
  REQUIRE_FALSE(lost.has_value());
  CHECK(lost.error().code() == ErrorCode::no_such_proc);
  CHECK(lost.error().detail().find(hosts.b->address().to_string()) != std::string::npos);
}

TEST_CASE("broker: a host that nobody introduced, and one that cannot be reached") {
  Hosts hosts;
  TestPeer launcher(hosts.loop, endpoint_of(*hosts.a), launcher_hello());
  launcher.up();
  auto lost = launcher.call(Destination{.proc = 1, .host = 2, .host_text = {}}, "x");
  REQUIRE_FALSE(lost.has_value());
  CHECK(lost.error().code() == ErrorCode::no_such_host);
  const auto begin = std::chrono::steady_clock::now();
  lost = launcher.call(Destination::to(*ProcId::parse("unix:" + (hosts.dir / "none") + ",service")),
                       "x");
  REQUIRE_FALSE(lost.has_value());
  CHECK(lost.error().code() == ErrorCode::host_unreachable);
  CHECK(std::chrono::steady_clock::now() - begin < 3s * slowness);
  check_conservation(hosts.loop, *hosts.a);
}

TEST_CASE("broker: addresses that make no host are refused at Introduce") {
  Hosts hosts;
  TestPeer launcher(hosts.loop, endpoint_of(*hosts.a), launcher_hello());
  launcher.up();
  const auto refusal = [&](const std::string& text) {
    wire::IntroduceT introduce;
    introduce.host = text;
    const auto answer = launcher.ask(Destination::to_broker(), introduce);
    return answer ? ErrorCode::none : answer.error().code();
  };
  CHECK(refusal("nonsense") == ErrorCode::parse_error);
  CHECK(refusal("tcp:*:0") == ErrorCode::unroutable);
  CHECK(refusal("local:4") == ErrorCode::unroutable);
  // This broker has no --insecure.
  CHECK(refusal("tcp:127.0.0.1:7420") == ErrorCode::unroutable);
  CHECK(refusal(hosts.a->address().to_string()) == ErrorCode::none);
  CHECK(refusal(hosts.b->address().to_string()) == ErrorCode::none);
  CHECK(refusal(hosts.b->address().to_string()) == ErrorCode::none);
}

TEST_CASE("broker: when another broker dies, its link is lost, and its next incarnation found") {
  Hosts hosts;
  TestPeer launcher(hosts.loop, endpoint_of(*hosts.a), launcher_hello());
  const auto hello = proc_hello(hosts.b->address(), 0);
  TestPeer proc(hosts.loop, endpoint_of(*hosts.b), hello);
  launcher.up();
  proc.up();
  REQUIRE(launcher.call(proc.address(), "hello").has_value());
  const auto incarnation = hosts.b->incarnation();
  hosts.b.reset();
  REQUIRE(hosts.loop.until([&] { return proc.downs == 1; }));
  auto lost = launcher.call(proc.address(), "gone?");
  REQUIRE_FALSE(lost.has_value());
  CHECK((lost.error().code() == ErrorCode::host_unreachable ||
         lost.error().code() == ErrorCode::link_lost));
  hosts.b = hosts.start(1);
  CHECK(hosts.b->incarnation() != incarnation);
  proc.up();
  CHECK(launcher.call(proc.address(), "again") == "re: again");
  CHECK(proc.call(launcher.address(), "again") == "re: again");
  check_conservation(hosts.loop, *hosts.a);
}

TEST_CASE("broker: a broker that comes up while messages wait for it gets them") {
  Hosts hosts;
  hosts.a = nullptr;
  hosts.a = hosts.start(0, 10s);
  const HostAddr address = hosts.b->address();
  hosts.b.reset();
  TestPeer launcher(hosts.loop, endpoint_of(*hosts.a), launcher_hello());
  launcher.up();
  const auto hello = proc_hello(address, 0);
  for (const char* body : {"a", "b", "c"})
    REQUIRE(launcher.bus->send(Destination::to(*ProcId::parse(hello.peer)), 1, body).has_value());
  REQUIRE(hosts.loop.until([&] { return hosts.a->held() == 3; }));
  hosts.b = hosts.start(1);
  TestPeer proc(hosts.loop, endpoint_of(*hosts.b), hello);
  REQUIRE(hosts.loop.until([&] { return proc.received.size() == 3; }));
  CHECK(proc.received[0].second == "a");
  CHECK(proc.received[2].second == "c");
  CHECK(launcher.returned.empty());
}

TEST_CASE("broker: what waits for a lost link comes back") {
  Hosts hosts;
  TestPeer sender(hosts.loop, endpoint_of(*hosts.a), launcher_hello());
  sender.up();
  // A broker that takes the link and then reads nothing.
  zmq::socket_t frozen(hosts.loop.context, zmq::socket_type::router);
  frozen.set(zmq::sockopt::linger, 0);
  frozen.set(zmq::sockopt::rcvhwm, 1);
  frozen.set(zmq::sockopt::rcvbuf, 4096);
  const auto address = *HostAddr::parse("unix:" + (hosts.dir / "frozen"));
  frozen.bind(address.zmq_endpoint());
  const auto to = Destination::to(ProcId(address, *ProcName::parse("p-13Se1Maqzryj")));
  constexpr std::size_t kMessages = 40;
  const std::string body(100'000, 'x');
  for (std::size_t i = 0; i < kMessages; ++i) REQUIRE(sender.bus->send(to, 1, body).has_value());
  zmq::message_t id, hello;
  REQUIRE(hosts.loop.until(
      [&] { return static_cast<bool>(frozen.recv(id, zmq::recv_flags::dontwait)); }));
  REQUIRE(frozen.recv(hello).has_value());
  wire::WelcomeT welcome;
  welcome.version = 1;
  welcome.host = address.to_string();
  welcome.incarnation = 5;
  welcome.heartbeat_ms = 60000;
  wire::Envelope envelope;
  envelope.mutate_role(Role::broker);
  FrameWriter writer(wire::Lane::control, /*link=*/true);
  writer.add(envelope, encode_control({}, std::move(welcome)));
  const Frame frame = writer.finish();
  REQUIRE(frozen.send(id, zmq::send_flags::sndmore).has_value());
  REQUIRE(frozen.send(zmq::buffer(frame.parts[0].view()), zmq::send_flags::none).has_value());
  REQUIRE(hosts.loop.until([&] { return hosts.a->counters().delivered > 10; }));
  frozen.close();
  for (std::size_t i = 0; i < kMessages; ++i) (void)sender.bus->send(to, 1, body);
  REQUIRE(hosts.loop.until([&] { return sender.bus->traffic().outstanding == 0; }));
  CHECK(hosts.a->held() == 0);
  // What the broker that froze had taken may have reached somebody.
  const auto came_back =
      std::count_if(sender.returned.begin(), sender.returned.end(), [](const auto& returned) {
        return returned.second.code() == ErrorCode::link_lost ||
               returned.second.code() == ErrorCode::host_unreachable;
      });
  CHECK(came_back >= static_cast<std::ptrdiff_t>(kMessages));
  CHECK(sender.returned.size() == 2 * kMessages);
  check_conservation(hosts.loop, *hosts.a);
}

TEST_CASE("broker: who answers at another host's address must be that host") {
  Hosts hosts;
  TestPeer launcher(hosts.loop, endpoint_of(*hosts.a), launcher_hello());
  launcher.up();
  // The same socket under another name.
  std::filesystem::create_symlink(hosts.dir / "1", hosts.dir / "alias");
  const auto lost = launcher.call(
      Destination::to(*ProcId::parse("unix:" + (hosts.dir / "alias") + ",service")), "x");
  REQUIRE_FALSE(lost.has_value());
  CHECK(lost.error().code() == ErrorCode::identity_mismatch);
}

TEST_CASE("broker: a link's claims are believed only for its own host, and only so far") {
  Hosts hosts;
  TestPeer receiver(hosts.loop, endpoint_of(*hosts.a), launcher_hello());
  receiver.up();
  RawPeer link(hosts.loop, endpoint_of(*hosts.a));
  const auto other = *HostAddr::parse("unix:/other/host");
  link.tell(hello_of(wire::PeerKind::link, other.to_string(), 5), 0, /*link=*/true);
  REQUIRE(link.next_control()->body_name() == "Welcome");
  auto envelope = message_to(receiver.address());
  envelope.mutate_source_proc(77);
  envelope.mutate_source_host(hosts.a->address().key());
  envelope.mutate_role(Role::operate);
  link.send_message(envelope, "false", true);
  envelope.mutate_source_host(12345);
  link.send_message(envelope, "false", true);
  envelope.mutate_source_host(other.key());
  envelope.mutate_role(Role::host);
  link.send_message(envelope, "capped", true);
  envelope.mutate_source_proc(host_service(other).key());
  link.send_message(envelope, "its agent", true);
  envelope.mutate_role(static_cast<Role>(200));
  envelope.mutate_source_proc(78);
  link.send_message(envelope, "unknown role", true);
  envelope.mutate_role(Role::proc);
  envelope.mutate_hop(64);
  link.send_message(envelope, "too far", true);
  envelope.mutate_hop(1);
  envelope.mutate_destination_host(hosts.b->address().key());
  link.send_message(envelope, "to a third host", true);
  envelope.mutate_destination_host(0);
  link.send_message(envelope, "last", true);
  REQUIRE(hosts.loop.until(
      [&] { return !receiver.received.empty() && receiver.received.back().second == "last"; }));
  REQUIRE(receiver.received.size() == 4);
  CHECK(receiver.received[0].second == "capped");
  CHECK(receiver.received[0].first.role() == Role::operate);
  CHECK(receiver.received[1].first.role() == Role::host);
  CHECK(receiver.received[2].first.role() == Role::operate);
  CHECK(receiver.received[3].first.role() == Role::proc);
  CHECK(hosts.a->counters().dropped[static_cast<std::size_t>(Drop::false_source)] == 2);
  // The two that could not be delivered came back over the link.
  std::vector<wire::ErrorCode> codes;
  while (codes.size() < 2) {
    const auto control = link.next_control();
    REQUIRE(control.has_value());
    if (const auto* undeliverable = control->body_as<wire::Undeliverable>())
      codes.push_back(undeliverable->code());
  }
  CHECK(codes[0] == wire::ErrorCode::expired);
  CHECK(codes[1] == wire::ErrorCode::no_such_host);
  check_conservation(hosts.loop, *hosts.a);
}

TEST_CASE(
    "broker: a host that can only connect to us gets what waits for it over its own link, and is "
    "found there afterwards") {
  const auto connect_limit = 3s;
  Hosts hosts(connect_limit);
  TestPeer sender(hosts.loop, endpoint_of(*hosts.a), launcher_hello());
  sender.up();
  const auto address = *HostAddr::parse("unix:" + (hosts.dir / "unreachable"));
  const auto to = Destination::to(ProcId(address, *ProcName::parse("p-13Se1Maqzryj")));
  for (const char* body : {"a", "b", "c"}) REQUIRE(sender.bus->send(to, 1, body).has_value());
  REQUIRE(hosts.loop.until([&] { return hosts.a->held() == 3; }));
  RawPeer link(hosts.loop, endpoint_of(*hosts.a));
  link.tell(hello_of(wire::PeerKind::link, address.to_string()), 0, /*link=*/true);
  REQUIRE(link.next_control()->body_name() == "Welcome");
  for (const std::string body : {"a", "b", "c"}) CHECK(link.next()->second == body);
  // Our own attempt is given up meanwhile, and disturbs nobody.
  hosts.loop.run_for(connect_limit + 500ms);
  REQUIRE(sender.bus->send(to, 1, "d").has_value());
  auto next = link.next();
  // The sender may have asked what became of the others by now.
  while (next && next->first.kind() == wire::Kind::control) next = link.next();
  REQUIRE(next.has_value());
  CHECK(next->second == "d");
  CHECK(sender.returned.empty());
  check_conservation(hosts.loop, *hosts.a);
}

TEST_CASE("broker: Watch and Gone cross links") {
  Hosts hosts;
  TestPeer watcher(hosts.loop, endpoint_of(*hosts.a), launcher_hello());
  watcher.up();
  const auto hello = proc_hello(hosts.b->address(), 0);
  auto proc = std::make_unique<TestPeer>(hosts.loop, endpoint_of(*hosts.b), hello);
  proc->up();
  wire::WatchT watch;
  watch.proc = hello.peer;
  const auto answer = watcher.ask(Destination::to_broker(hosts.b->address()), watch);
  REQUIRE(answer.has_value());
  CHECK(watcher.gone.empty());
  proc.reset();
  REQUIRE(hosts.loop.until([&] { return watcher.gone.size() == 1; }));
  CHECK(watcher.gone[0].proc == hello.peer);
  CHECK(watcher.gone[0].request == (*answer)->id());
}

TEST_CASE("broker: hosts on tcp, by address and by name") {
  Loop loop;
  TempDir dir;
  const auto start = [&](const std::string& name, const std::string& advertise) {
    return start_broker(loop, "unix:" + (dir / name), {}, [&](BrokerOptions& options) {
      options.binds.push_back(*HostAddr::parse("tcp:127.0.0.1:0"));
      options.advertise = *HostAddr::parse(advertise);
      options.insecure = true;
      options.link_connect_limit = 10s;
    });
  };
  const auto a = start("a", "tcp:127.0.0.1:0");
  const auto b = start("b", "tcp:localhost:0");
  CHECK(a->address().port() == a->binds()[1].port());
  CHECK(b->address().to_string() == "tcp:localhost:" + std::to_string(b->binds()[1].port()));
  TestPeer launcher(loop, endpoint_of(*a, 1), launcher_hello());
  TestPeer proc(loop, endpoint_of(*b, 0), proc_hello(b->address(), 0));
  launcher.up();
  proc.up();
  CHECK(launcher.role == Role::operate);
  CHECK(launcher.call(proc.address(), "by name") == "re: by name");
  CHECK(proc.call(launcher.address(), "by number") == "re: by number");
  const auto lost =
      launcher.call(Destination::to(*ProcId::parse("tcp:no-such-name.localhost:1,service")), "x");
  REQUIRE_FALSE(lost.has_value());
  CHECK(lost.error().code() == ErrorCode::host_unreachable);
}

TEST_CASE("broker: a host without an address for others does not pretend to have one") {
  Hosts hosts;
  auto c = start_broker(hosts.loop, "unix:" + (hosts.dir / "c"), {},
                        [](BrokerOptions& options) { options.insecure = true; });
  TestPeer launcher(hosts.loop, endpoint_of(*c), launcher_hello());
  launcher.up();
  wire::IntroduceT introduce;
  introduce.host = "tcp:10.1.2.3:7420";
  const auto refused = launcher.ask(Destination::to_broker(), introduce);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == ErrorCode::unroutable);
  CHECK(refused.error().detail().find("--advertise") != std::string::npos);
  // A message there is returned with the reason.
  const auto lost =
      launcher.call(Destination::to(*ProcId::parse("tcp:10.1.2.3:7420,service")), "x");
  REQUIRE_FALSE(lost.has_value());
  CHECK(lost.error().code() == ErrorCode::unroutable);
  CHECK(lost.error().detail().find("--advertise") != std::string::npos);
}
