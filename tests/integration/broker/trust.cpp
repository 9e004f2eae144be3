// What peers may say of each other and at what length: forged answers, long texts, old lives,
// readers that stopped (spec 9, 13.3).
#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "common/base/log.h"
#include "common/base/unique_fd.h"
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

/// Nobody wants to read what is provoked here.
struct Quiet {
  Quiet() {
    log::set_sink([](log::Level, std::string_view) {}, log::Level::error);
  }
  ~Quiet() { log::set_sink({}, log::Level::warn); }
};

wire::Envelope to(std::uint64_t proc, wire::Kind kind, wire::Lane lane) {
  wire::Envelope envelope;
  envelope.mutate_destination_proc(proc);
  envelope.mutate_kind(kind);
  envelope.mutate_lane(lane);
  return envelope;
}

wire::WatchT watch(std::string proc) {
  wire::WatchT watch;
  watch.proc = std::move(proc);
  return watch;
}

wire::IntroduceT introduction(std::string host) {
  wire::IntroduceT introduce;
  introduce.host = std::move(host);
  return introduce;
}

wire::ByeT farewell(std::string reason) {
  wire::ByeT bye;
  bye.reason = std::move(reason);
  return bye;
}

/// A Bus that takes Acks from any sender, and answers a Watch with an Ack of `answer_size` bytes.
struct AckPeer {
  AckPeer(Loop& loop, const std::string& endpoint, std::size_t answer_size = 0) {
    Dispatcher handlers;
    handlers.on<wire::Ack>(Role::observe, [this](const Request&, const wire::Ack&) { ++acks; });
    handlers.on<wire::Watch>(Role::observe,
                             [this, answer_size](const Request& request, const wire::Watch&) {
                               wire::AckT ack;
                               ack.detail = std::string(answer_size, 'x');
                               bus->answer(request, std::move(ack));
                             });
    bus.emplace(loop.reactor, session_options(endpoint, launcher_hello()), std::move(handlers),
                Bus::Events());
    REQUIRE(loop.until([this] { return bus->is_up(); }));
  }
  std::size_t acks = 0;
  std::optional<Bus> bus;
};

/// A peer on tcp that speaks ZMTP by hand, and so never answers a PING: like one whose process is
/// stopped.
UniqueFd connect_by_hand(std::uint16_t port, const wire::HelloT& hello) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  const auto say = [&](const std::string& bytes) {
    REQUIRE(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  };
  std::string greeting(64, '\0');
  greeting[0] = '\xff';
  greeting[9] = '\x7f';
  greeting[10] = 3;
  greeting[11] = 1;
  greeting.replace(12, 4, "NULL");
  say(greeting);
  const std::string ready =
      std::string("\x05READY\x0bSocket-Type", 18) + std::string("\0\0\0\6DEALER", 10);
  say(std::string{4, static_cast<char>(ready.size())} + ready);
  FrameWriter writer(wire::Lane::control);
  writer.add(wire::Envelope(), encode_control({}, wire::HelloT(hello)));
  Frame frame = writer.finish();
  const std::string message(frame.parts.at(0).view());
  say(std::string{2, 0, 0, 0, 0, 0, 0, static_cast<char>(message.size() >> 8),
                  static_cast<char>(message.size())} +
      message);
  return fd;
}

}  // namespace

TEST_CASE("bus: only the one that was asked can answer") {
  const Quiet quiet;
  LocalBroker host;
  TestPeer launcher(host.loop, host.endpoint(), launcher_hello());
  launcher.up();
  const auto asked_hello = proc_hello(host.broker->address(), 1);
  RawPeer asked(host.loop, host.endpoint());
  RawPeer liar(host.loop, host.endpoint());
  RawPeer link(host.loop, host.endpoint());
  REQUIRE(asked.greet(asked_hello) == "Welcome");
  REQUIRE(liar.greet(proc_hello(host.broker->address(), 2)) == "Welcome");
  link.tell(hello_of(wire::PeerKind::link, "unix:/other/host", 5), 0, /*link=*/true);
  REQUIRE(link.next_control()->body_name() == "Welcome");

  std::optional<Result<std::string>> call;
  std::optional<Result<ControlMessage>> request;
  const auto proc = Destination::to(*ProcId::parse(asked_hello.peer));
  launcher.bus->call(proc, 1, "?", 20s,
                     [&](Result<std::string> answer) { call = std::move(answer); });
  launcher.bus->request(proc, watch("x"), 20s,
                        [&](Result<ControlMessage> answer) { request = std::move(answer); });
  std::uint64_t call_id = 0, request_id = 0, sequence = 0;
  for (int i = 0; i < 2; ++i) {
    const auto message = asked.next();
    REQUIRE(message.has_value());
    if (message->first.kind() == wire::Kind::call) {
      wire::CallHeader header;
      std::memcpy(&header, message->second.data(), sizeof header);
      call_id = header.id();
      sequence = message->first.sequence();
    } else {
      request_id = (*ControlMessage::decode(message->second))->id();
    }
  }
  const std::uint64_t self = launcher.bus->self()->key();
  const wire::CallHeader header(call_id, 0, wire::ErrorCode::none, 0);
  const std::string head(reinterpret_cast<const char*>(&header), sizeof header);
  wire::UndeliverableT undeliverable;
  undeliverable.envelope = std::make_unique<wire::Envelope>();
  undeliverable.envelope->mutate_sequence(sequence);
  undeliverable.envelope->mutate_destination_host(key_of("unix:/other/host"));
  auto from_link = to(self, wire::Kind::control, wire::Lane::control);
  from_link.mutate_source_host(key_of("unix:/other/host"));
  link.send_message(from_link, encode_control({}, std::move(undeliverable)), /*link=*/true);
  link.send_message(from_link, encode_control({.id = request_id, .is_answer = true}, wire::AckT()),
                    /*link=*/true);
  liar.send_message(to(self, wire::Kind::control, wire::Lane::control),
                    encode_control({.id = request_id, .is_answer = true}, wire::RefusalT()));
  liar.send_message(to(self, wire::Kind::reply, wire::Lane::data), head + "a lie");
  liar.send_message(to(self, wire::Kind::message, wire::Lane::data), "the end");
  REQUIRE(host.loop.until([&] { return launcher.received.size() == 1; }));
  host.loop.run_for(50ms);
  CHECK_FALSE(call.has_value());
  CHECK_FALSE(request.has_value());

  asked.send_message(to(self, wire::Kind::control, wire::Lane::control),
                     encode_control({.id = request_id, .is_answer = true}, wire::AckT()));
  asked.send_message(to(self, wire::Kind::reply, wire::Lane::data), head + "the truth");
  REQUIRE(host.loop.until([&] { return call && request; }));
  CHECK(*call == "the truth");
  CHECK(request->has_value());
}

TEST_CASE("bus: an answer above the limit becomes a refusal") {
  LocalBroker host;
  AckPeer answerer(host.loop, host.endpoint(), kBodyLimit + 1);
  TestPeer asker(host.loop, host.endpoint(), launcher_hello());
  asker.up();
  const auto answer = asker.ask(Destination::to(*answerer.bus->self()), watch("x"));
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().code() == ErrorCode::too_large);
}

TEST_CASE("broker: what it quotes of peers is cut, so that no text ends a connection or a link") {
  const Quiet quiet;
  Loop loop;
  TempDir dir;
  const auto a = start_broker(loop, "unix:" + (dir / "a"));
  const auto b = start_broker(loop, "unix:" + (dir / "c"));
  TestPeer peer(loop, endpoint_of(*a), launcher_hello());
  peer.up();
  const std::string text(kBodyLimit - 1000, '\x01');
  for (const auto& at : {Destination::to_broker(), Destination::to_broker(b->address())}) {
    for (int round = 0; round < 2; ++round) {
      const auto watched = peer.ask(at, watch(text));
      REQUIRE_FALSE(watched.has_value());
      CHECK(watched.error().code() == ErrorCode::parse_error);
      CHECK(watched.error().detail().size() <= kTextLimit);
      const auto introduced = peer.ask(at, introduction(text));
      REQUIRE_FALSE(introduced.has_value());
      CHECK(introduced.error().detail().size() <= kTextLimit);
    }
  }
  CHECK(peer.downs == 0);
  CHECK(b->peers() == 1);

  // A farewell is told to the watchers.
  const auto hello = proc_hello(a->address(), 1);
  RawPeer proc(loop, endpoint_of(*a));
  REQUIRE(proc.greet(hello) == "Welcome");
  REQUIRE(peer.ask(Destination::to_broker(), watch(hello.peer)).has_value());
  proc.tell(farewell(text));
  REQUIRE(loop.until([&] { return peer.gone.size() == 1; }));
  CHECK(peer.gone[0].reason.size() <= kTextLimit);

  // A stranger's name comes back to it.
  auto refused = launcher_hello();
  refused.peer = text;
  TestPeer stranger(loop, endpoint_of(*a), refused);
  REQUIRE(loop.until([&] { return stranger.refused.has_value(); }));
  CHECK(stranger.refused->detail().size() < 2 * kTextLimit);
}

TEST_CASE("broker: the farewell of a life that was replaced does not end the new one") {
  LocalBroker host;
  TestPeer launcher(host.loop, host.endpoint(), launcher_hello());
  launcher.up();
  RawPeer replaced(host.loop, host.endpoint());
  REQUIRE(replaced.greet(proc_hello(host.broker->address(), 1, 11)) == "Welcome");
  TestPeer restarted(host.loop, host.endpoint(), proc_hello(host.broker->address(), 1, 12));
  restarted.up();
  const auto handled = host.broker->counters().handled;
  replaced.tell(farewell("late"));
  REQUIRE(host.loop.until([&] { return host.broker->counters().handled > handled; }));
  CHECK(host.broker->peers() == 2);
  CHECK(launcher.call(restarted.address(), "there?") == "re: there?");
}

TEST_CASE("bus: a new session knows the hosts before what waited for it leaves") {
  Loop loop;
  TempDir dir;
  auto a = start_broker(loop, "unix:" + (dir / "a"));
  const auto b = start_broker(loop, "unix:" + (dir / "c"));
  TestPeer launcher(loop, endpoint_of(*a), launcher_hello());
  AckPeer there(loop, endpoint_of(*b), 10);
  launcher.up();
  const auto to_there = Destination::to(*there.bus->self());
  REQUIRE(launcher.ask(to_there, watch("x")).has_value());
  a.reset();
  REQUIRE(loop.until([&] { return launcher.downs == 1; }));
  std::optional<Result<ControlMessage>> answer;
  launcher.bus->request(to_there, watch("x"), 20s,
                        [&](Result<ControlMessage> result) { answer = std::move(result); });
  loop.run_for(20ms);
  a = start_broker(loop, "unix:" + (dir / "a"));
  REQUIRE(loop.until([&] { return answer.has_value(); }));
  INFO((*answer ? std::string() : answer->error().to_string()));
  CHECK(answer->has_value());
}

TEST_CASE(
    "broker: control for a peer that has stopped is held in its queue, and flows for one that "
    "reads") {
  const Quiet quiet;
  LocalBroker host(Setting("queue.bytes", "4MiB"));
  AckPeer sender(host.loop, host.endpoint());
  AckPeer reader(host.loop, host.endpoint());
  const auto hello = launcher_hello();
  auto stopped = std::make_unique<RawPeer>(host.loop, host.endpoint());
  REQUIRE(stopped->greet(hello) == "Welcome");
  wire::AckT ack;
  ack.detail = std::string(200'000, 'x');
  const auto flood = [&](const Destination& to) {
    for (int i = 0; i < 100; ++i) {
      REQUIRE(sender.bus->tell(to, ack));
      REQUIRE(host.loop.until([&] { return sender.bus->queued_bytes() < 1'000'000; }));
    }
  };
  const auto begin = std::chrono::steady_clock::now();
  flood(Destination::to(*reader.bus->self()));
  CHECK(host.loop.until([&] { return reader.acks == 100; }, 5s * slowness));
  INFO(reader.acks << " came; " << host.broker->counters().to_string());
  REQUIRE(reader.acks == 100);
  // Far less than a heartbeat for each window.
  CHECK(std::chrono::steady_clock::now() - begin < 5s * slowness);

  const auto before = host.broker->counters();
  flood(Destination::to(ProcId(host.broker->address(), *ProcName::parse(hello.peer))));
  REQUIRE(
      host.loop.until([&] { return host.broker->counters().received >= before.received + 100; }));
  const auto after = host.broker->counters();
  CHECK(after.returned > 0);
  // What came back was delivered too, to the sender.
  CHECK(after.delivered - before.delivered - after.returned < 40);
  const auto held = host.broker->held();
  CHECK(held > 10);
  stopped->tell(wire::HeartbeatT());
  REQUIRE(host.loop.until([&] { return host.broker->held() < 5; }));
  check_conservation(host.loop, *host.broker);
  // libzmq 4.3.4 aborts (session_base.cpp, clean_pipes) when a connection breaks just while the
  // socket that has half a message for it is closed: so one after the other.
  stopped.reset();
  REQUIRE(host.loop.until([&] { return host.broker->peers() == 2; }));
}

TEST_CASE("broker: more hosts than it remembers take the place of those that were idle longest") {
  LocalBroker host;
  TestPeer peer(host.loop, host.endpoint(), launcher_hello());
  peer.up();
  std::size_t answers = 0, refusals = 0;
  constexpr std::size_t kHosts = 16384 + 100;
  for (std::size_t i = 0; i < kHosts; ++i) {
    peer.bus->request(Destination::to_broker(), introduction("unix:/nobody/" + std::to_string(i)),
                      60s, [&](const Result<ControlMessage>& answer) {
                        ++answers;
                        if (!answer) ++refusals;
                      });
    if (i % 500 == 0) REQUIRE(host.loop.until([&] { return answers + 500 > i; }));
  }
  REQUIRE(host.loop.until([&] { return answers == kHosts; }, 60s));
  CHECK(refusals == 0);
}

TEST_CASE("broker: a launcher on tcp that is stopped for a while is not gone") {
  Loop loop;
  TempDir dir;
  const auto broker =
      start_broker(loop, "unix:" + (dir / "b"), {{"heartbeat", "1s"}}, [&](BrokerOptions& options) {
        options.binds.push_back(*HostAddr::parse("tcp:127.0.0.1:0"));
        options.insecure = true;
      });
  const UniqueFd stopped = connect_by_hand(broker->binds()[1].port(), launcher_hello());
  INFO(broker->counters().to_string());
  REQUIRE(loop.until([&] { return broker->peers() == 1; }));
  loop.run_for(2500ms);
  CHECK(broker->peers() == 1);
  // Nor is one that never comes back kept for ever.
  CHECK(loop.until([&] { return broker->peers() == 0; }, 10s));
}

TEST_CASE("session: may end at any moment of its beginning") {
  LocalBroker host;
  for (int turns = 0; turns < 60; ++turns) {
    std::optional<Session> session;
    session.emplace(host.loop.reactor, session_options(host.endpoint(), launcher_hello()),
                    Session::Events());
    for (int i = 0; i < turns / 4; ++i)
      host.loop.reactor.turn(std::chrono::milliseconds(turns % 4 == 0 ? 1 : 0));
    session.reset();
    host.loop.run_for(2ms);
  }
  REQUIRE(host.loop.until([&] { return host.broker->peers() == 0; }));
}
