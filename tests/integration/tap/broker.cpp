// Copies of messages, as any SUB socket gets them.
#include <doctest/doctest.h>

#include "cli/tap/tap_batch.h"
#include "common/wire/tap_filter.h"
#include "tests/support/temp_dir.h"
#include "tests/world/broker.h"
#include "tests/world/hello.h"
#include "tests/world/loop.h"
#include "tests/world/peer.h"
#include "wire/frame_generated.h"

using namespace meshbus;
using namespace meshbus::test;

namespace {

/// A plain SUB socket at a tap.
struct TapReader {
  TapReader(Loop& running, const std::string& path, const std::string& topic, int most = 0)
      : loop(running), socket(running.context, zmq::socket_type::sub) {
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::rcvhwm, most);
    socket.connect("ipc://" + path);
    socket.set(zmq::sockopt::subscribe, topic);
  }
  /// All that has come.
  void read() {
    for (;;) {
      zmq::message_t topic, body;
      if (!socket.recv(topic, zmq::recv_flags::dontwait)) return;
      REQUIRE(socket.recv(body, zmq::recv_flags::dontwait).has_value());
      REQUIRE_FALSE(body.more());
      auto batch = cli::TapBatch::decode(body.to_string_view());
      REQUIRE(batch.has_value());
      names.learn(*batch);
      count.missed_before(*batch);
      for (const auto& message : batch->messages())
        messages.emplace_back(message.envelope, std::string(message.body));
      last.emplace(std::move(*batch));
    }
  }
  bool until(const std::function<bool()>& predicate) {
    return loop.until([&] {
      read();
      return predicate();
    });
  }
  /// It hears of the broker at once, whatever passes.
  void wait_tapping() {
    REQUIRE(until([this] { return last.has_value(); }));
  }

  Loop& loop;
  zmq::socket_t socket;
  cli::TapNames names;
  cli::TapCount count;
  std::optional<cli::TapBatch> last;
  std::vector<std::pair<wire::Envelope, std::string>> messages;
};

/// A broker with a tap, a launcher and a proc.
struct TappedPair {
  TappedPair()
      : broker(start_broker(loop, "unix:" + (dir / "b"), {},
                            [this](BrokerOptions& options) {
                              options.tap = *HostAddr::parse("unix:" + (dir / "tap"));
                            })),
        launcher(loop, endpoint_of(*broker), launcher_hello()),
        proc(loop, endpoint_of(*broker), proc_hello(broker->address(), 0)) {
    launcher.up();
    proc.up();
  }
  void send(std::uint32_t port, const std::string& body) {
    REQUIRE(launcher.bus->send(proc.address(), port, body).has_value());
  }
  bool until_received(std::size_t count) {
    return loop.until([&] { return proc.received.size() >= count; });
  }

  TempDir dir;
  Loop loop;
  std::unique_ptr<Broker> broker;
  TestPeer launcher;
  TestPeer proc;
};

}  // namespace

TEST_CASE(
    "broker_tap: every message is seen once, in order, with its size and as much of its body as "
    "was asked for") {
  TappedPair at;
  TapReader all(at.loop, at.dir / "tap", tap_topic(kBodyLimit, "kind=message"));
  TapReader some(at.loop, at.dir / "tap", tap_topic(3, "port=2|3 size>1"));
  TapReader nothing(at.loop, at.dir / "tap", tap_topic(0, "from=nobody"));
  for (TapReader* reader : {&all, &some, &nothing}) reader->wait_tapping();

  std::vector<std::string> bodies;
  for (std::uint32_t i = 0; i < 200; ++i) {
    // Small ones, detached ones, and the largest.
    const std::size_t size = i == 50 ? kBodyLimit : i % 20 == 7 ? kInlineLimit + i : i;
    bodies.emplace_back(size, static_cast<char>('a' + i % 26));
    at.send(i % 5, bodies.back());
  }
  REQUIRE(at.until_received(200));
  REQUIRE(all.until([&] { return all.messages.size() >= 200; }));
  REQUIRE(all.messages.size() == 200);
  for (std::size_t i = 0; i < 200; ++i) {
    CAPTURE(i);
    const auto& [envelope, body] = all.messages[i];
    CHECK(envelope.length() == bodies[i].size());
    CHECK(envelope.port() == i % 5);
    CHECK((body == bodies[i]));
  }
  CHECK(all.names.find(all.messages[0].first.source_proc()) ==
        at.launcher.bus->self()->to_string());
  CHECK(all.names.find(all.messages[0].first.destination_proc()) ==
        at.proc.bus->self()->to_string());
  CHECK(all.names.find(all.messages[0].first.destination_host()) ==
        at.broker->address().to_string());
  REQUIRE(some.until([&] { return some.messages.size() >= 80; }));
  CHECK(some.messages.size() == 80);
  for (const auto& [envelope, body] : some.messages)
    CHECK(body.size() == std::min<std::size_t>(3, envelope.length()));
  nothing.read();
  CHECK(nothing.messages.empty());
  CHECK(all.count.missed() + some.count.missed() == 0);
  check_conservation(at.loop, *at.broker);
}

TEST_CASE(
    "broker_tap: answers and what the broker says itself are seen; what is between a peer and its "
    "broker is not") {
  TappedPair at;
  TapReader reader(at.loop, at.dir / "tap", tap_topic(0, ""));
  reader.wait_tapping();
  REQUIRE(at.launcher.call(at.proc.address(), "question").has_value());
  const auto nobody =
      Destination::to(ProcId(*HostAddr::parse("tcp:192.0.2.1:7"), ProcName(*Name::make("nobody"))));
  REQUIRE(at.launcher.bus->send(nobody, 5, "lost").has_value());
  REQUIRE(reader.until([&] { return reader.messages.size() >= 4; }));
  std::vector<wire::Kind> kinds;
  for (const auto& [envelope, body] : reader.messages) kinds.push_back(envelope.kind());
  // The answer to Introduce comes from the broker, too.
  std::erase(kinds, wire::Kind::control);
  CHECK(kinds == std::vector{wire::Kind::call, wire::Kind::reply, wire::Kind::message});
  CHECK(std::all_of(reader.messages.begin(), reader.messages.end(), [](const auto& one) {
    return one.first.destination_proc() != 0 &&
           (one.first.kind() != wire::Kind::control || one.first.source_proc() == 0);
  }));
}

TEST_CASE("broker_tap: who does not read misses messages and knows how many; nobody waits for it") {
  TappedPair at;
  TapReader slow(at.loop, at.dir / "tap", tap_topic(kBodyLimit, "kind=message"), 1);
  TapReader quick(at.loop, at.dir / "tap", tap_topic(0, "kind=message"));
  slow.wait_tapping();
  quick.wait_tapping();
  constexpr std::size_t total = 900;
  const std::string body(kInlineLimit, 'x');
  // 28 MiB, a share at a time, as no queue here is full.
  for (std::size_t sent = 0; sent < total;) {
    for (int i = 0; i < 100; ++i, ++sent) at.send(1, body);
    REQUIRE(at.until_received(sent));
    quick.read();
  }
  REQUIRE(quick.until([&] { return quick.messages.size() == total; }));
  CHECK(quick.count.missed() == 0);
  // All is delivered before it reads again; then it hears of the rest within a second or two.
  REQUIRE(slow.until([&] { return slow.count.seen() + slow.count.missed() >= total; }));
  CHECK(slow.count.seen() + slow.count.missed() == total);
  CHECK(slow.count.missed() > 0);
  CHECK(slow.count.seen() > 0);
  CHECK(slow.messages.size() == slow.count.seen());
  // And everything again from then on.
  const auto missed = slow.count.missed();
  at.send(1, "after");
  REQUIRE(slow.until([&] { return slow.count.seen() + slow.count.missed() > total; }));
  CHECK(slow.count.missed() == missed);
  CHECK(slow.messages.back().second == "after");
}

TEST_CASE("broker_tap: nothing is copied while nobody is subscribed; a new tap begins anew") {
  TappedPair at;
  std::uint64_t stream = 0;
  {
    TapReader reader(at.loop, at.dir / "tap", tap_topic(0, ""));
    reader.wait_tapping();
    at.send(1, "seen");
    REQUIRE(reader.until([&] { return reader.messages.size() == 1; }));
    stream = (*reader.last)->stream();
  }
  at.send(1, "unseen");
  REQUIRE(at.until_received(2));
  // The broker has noticed that it left when a tap of the same filter is another one.
  REQUIRE(at.loop.until([&] {
    TapReader reader(at.loop, at.dir / "tap", tap_topic(0, ""));
    reader.wait_tapping();
    const bool is_new = (*reader.last)->stream() > stream;
    if (is_new) CHECK((*reader.last)->first() == 1);
    return is_new;
  }));
}

TEST_CASE(
    "broker_tap: a subscription that is not understood is refused in words, one too many as well") {
  TappedPair at;
  TapReader wrong(at.loop, at.dir / "tap", tap_topic(0, "kind=nonsense"));
  wrong.wait_tapping();
  REQUIRE((*wrong.last)->refusal() != nullptr);
  CHECK((*wrong.last)->refusal()->str().find("control, message, call, reply or error") !=
        std::string::npos);
  std::vector<std::unique_ptr<TapReader>> readers;
  std::size_t refused = 0;
  for (int i = 0; i < 17; ++i) {
    readers.push_back(std::make_unique<TapReader>(at.loop, at.dir / "tap",
                                                  tap_topic(0, "port=" + std::to_string(i))));
    readers.back()->wait_tapping();
    refused += (*readers.back()->last)->refusal() != nullptr ? 1U : 0U;
  }
  CHECK(refused == 1);
  // A reader that subscribes to all topics gets what the others have, and causes no copies itself;
  // meaningless bytes do nothing.
  TapReader curious(at.loop, at.dir / "tap", "");
  zmq::socket_t garbage(at.loop.context, zmq::socket_type::xsub);
  garbage.set(zmq::sockopt::linger, 0);
  garbage.connect("ipc://" + (at.dir / "tap"));
  for (const std::string& bytes :
       {std::string("\1tap/99999999999999999999/\n"), std::string("\1tap"), std::string("\7x"),
        std::string(5000, '\1')})
    garbage.send(zmq::buffer(bytes), zmq::send_flags::none);
  at.send(3, "still there");
  REQUIRE(readers[3]->until([&] { return readers[3]->messages.size() == 1; }));
}

TEST_CASE("broker_tap: it sees what would go by a direct path, which comes again after it") {
  TappedPair at;
  const auto has_path = [&] {
    return at.launcher.bus->direct().count() == 1 && at.proc.bus->direct().count() == 1;
  };
  const auto talk = [&](int calls) {
    for (int i = 0; i < calls; ++i)
      REQUIRE(at.launcher.call(at.proc.address(), "x").value() == "re: x");
  };
  at.launcher.bus->set_direct(true);
  at.proc.bus->set_direct(true);
  talk(100);
  REQUIRE(has_path());
  {
    TapReader tap(at.loop, at.dir / "tap", tap_topic(0, "kind=call|reply port=0|1"));
    tap.wait_tapping();
    REQUIRE(at.loop.until(
        [&] { return at.launcher.bus->direct().empty() && at.proc.bus->direct().empty(); }));
    tap.messages.clear();
    talk(200);
    REQUIRE(tap.until([&] { return tap.messages.size() >= 400; }));
    CHECK(tap.messages.size() == 400);
    CHECK_FALSE(has_path());
  }
  REQUIRE(at.loop.until([&] {
    talk(10);
    return has_path();
  }));
  // The broker hears how much goes past it.
  talk(100);
  REQUIRE(at.loop.until([&] { return at.broker->counters().direct >= 200; }));
  CHECK(at.broker->counters().direct_bytes >= 200 * sizeof(wire::Envelope));
  check_conservation(at.loop, *at.broker);
}
