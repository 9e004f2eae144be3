// What happens when somebody reads slowly, or not at all (spec 9.4, 9.5).
#include <sys/resource.h>

#include <algorithm>
#include <map>

#include "common/base/unix_address.h"
#include "common/zmtp/null_mechanism.h"
#include "common/zmtp/zmtp_stream.h"
#include "tests/world/broker.h"
#include "tests/world/hello.h"
#include "tests/world/loop.h"
#include "tests/world/peer.h"
#include "tests/world/raw_peer.h"
#include "wire/bus_generated.h"
#include "wire/lifecycle_generated.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

constexpr std::size_t kBody = 1024;
constexpr std::size_t kMessageSize = kBody + sizeof(wire::Envelope);

/// Senders that have more for one reader than may be on the way.
struct Crowd {
  Crowd(LocalBroker& local, std::size_t count) : broker(*local.broker) {
    reader = std::make_unique<TestPeer>(local.loop, local.endpoint(), launcher_hello());
    for (std::size_t i = 0; i < count; ++i)
      senders.push_back(std::make_unique<TestPeer>(local.loop, local.endpoint(), launcher_hello()));
    reader->up();
    for (auto& sender : senders) sender->up();
  }
  void send(std::size_t messages) {
    const std::string body(kBody - 8, 'x');
    for (std::size_t i = 0; i < messages; ++i, ++sent) {
      for (auto& sender : senders) {
        const std::string number = std::to_string(10'000'000 + sent);
        REQUIRE(sender->bus->send(reader->address(), 1, number + body).has_value());
      }
    }
  }
  std::size_t returned() const {
    std::size_t count = 0;
    for (const auto& sender : senders) count += sender->returned.size();
    return count;
  }
  /// Whether what the reader has heard of each sender is in order and whole so far.
  bool is_in_order() const {
    std::map<std::uint64_t, std::size_t> next;
    return std::ranges::all_of(reader->received, [&](const auto& one) {
      return one.second.size() == kBody &&
             one.second.starts_with(std::to_string(10'000'000 + next[one.first.source_proc()]++));
    });
  }
  /// Until nothing moves any more, longer than the broker's patience.
  void settle(Loop& loop) const {
    std::uint64_t before = UINT64_MAX;
    REQUIRE(loop.until(
        [&] {
          const std::uint64_t now = broker.counters().received;
          const bool is_still = now == before;
          before = now;
          if (!is_still) loop.run_for(1500ms);
          return is_still;
        },
        60s));
  }

  Broker& broker;
  std::unique_ptr<TestPeer> reader;
  std::vector<std::unique_ptr<TestPeer>> senders;
  std::size_t sent = 0;
};

std::chrono::microseconds cpu_time() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

}  // namespace

TEST_CASE(
    "broker pressure: a stopped reader's senders wait, asleep, with a window each in the broker; "
    "nothing is returned or lost") {
  LocalBroker local;
  Crowd crowd(local, 16);
  crowd.reader->bus->hold_data(true);
  crowd.send(800);
  // Before the broker's patience ends: a window for each sender.
  local.loop.run_for(500ms);
  const auto is_bounded = [&](double windows) {
    const double held = static_cast<double>(crowd.broker.held() * kMessageSize),
                 computed = windows * static_cast<double>(kWindow);
    CAPTURE(held / computed);
    CHECK(held <= 1.2 * computed);
    CHECK(crowd.returned() == 0);
    CHECK(crowd.reader->received.empty());
    CHECK(static_cast<double>(crowd.reader->bus->inbox_bytes()) <=
          1.2 * static_cast<double>(kWindow));
  };
  is_bounded(16);
  // Then what queue.bytes says, which is more than they have.
  crowd.settle(local.loop);
  is_bounded(32);
  // Asleep: the loop is turned by its own 5 ms only.
  const auto before = cpu_time();
  local.loop.run_for(1s);
  CHECK(cpu_time() - before < 500ms);

  crowd.reader->bus->hold_data(false);
  CHECK(local.loop.until([&] { return crowd.reader->received.size() == 16 * 800; }, 60s));
  CHECK(crowd.is_in_order());
  CHECK(crowd.returned() == 0);
  check_conservation(local.loop, crowd.broker);
}

TEST_CASE(
    "broker pressure: senders of a reader that stays stopped are told, a window a second, and "
    "reach others meanwhile") {
  LocalBroker local(Setting("queue.bytes", "1MiB"));
  Crowd crowd(local, 2);
  TestPeer other(local.loop, local.endpoint(), launcher_hello());
  other.up();
  crowd.reader->bus->hold_data(true);
  crowd.send(6000);
  for (int i = 0; i < 3; ++i)
    CHECK(crowd.senders[0]->call(other.address(), "hello", 60s) == "re: hello");
  CHECK(local.loop.until([&] { return crowd.returned() > 0; }));
  // What came back counts on: they are given no more than a window each in a second.
  const std::size_t at_first = crowd.returned();
  const auto begin = std::chrono::steady_clock::now();
  local.loop.run_for(2500ms);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const double windows = static_cast<double>((crowd.returned() - at_first) * kMessageSize) /
                         static_cast<double>(kWindow) / 2;
  CHECK(windows <= 1.3 * (took.count() + 1));
  CHECK(static_cast<double>(crowd.broker.held() * kMessageSize) < 1.2 * 1024 * 1024);
  check_conservation(local.loop, crowd.broker);
}

TEST_CASE(
    "broker pressure: beside a stopped reader others are served, and the reader itself hears "
    "control") {
  LocalBroker local;
  Crowd crowd(local, 4);
  TestPeer one(local.loop, local.endpoint(), launcher_hello()),
      other(local.loop, local.endpoint(), launcher_hello());
  one.up();
  other.up();
  crowd.reader->bus->hold_data(true);
  crowd.send(2000);
  crowd.settle(local.loop);
  for (int i = 0; i < 50; ++i) CHECK(one.call(other.address(), "hello") == "re: hello");
  // Nobody handles this request there: a refusal is an answer.
  const auto answer = one.ask(crowd.reader->address(), wire::GetFreePortT());
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().code() == ErrorCode::no_such_port);
  CHECK(crowd.reader->received.empty());
}

TEST_CASE("broker pressure: a reader that stops and goes gets everything, in order") {
  LocalBroker local;
  Crowd crowd(local, 16);
  Bus& bus = *crowd.reader->bus;
  crowd.send(40);
  // Takes what a turn brings, then nothing for a millisecond.
  std::size_t seen = 0;
  std::function<void()> allow = [&] { bus.hold_data(false); };
  CHECK(local.loop.until(
      [&] {
        if (crowd.reader->received.size() != seen) {
          seen = crowd.reader->received.size();
          bus.hold_data(true);
          local.loop.reactor.after(1ms, allow);
        }
        return seen == 16 * 40;
      },
      60s));
  CHECK(crowd.is_in_order());
  CHECK(crowd.returned() == 0);
}

TEST_CASE(
    "broker pressure: when a stopped reader leaves, its senders get back what the broker had, and "
    "can send again") {
  LocalBroker local;
  Crowd crowd(local, 2);
  TestPeer other(local.loop, local.endpoint(), launcher_hello());
  other.up();
  crowd.reader->bus->hold_data(true);
  crowd.send(3000);
  crowd.settle(local.loop);
  crowd.reader.reset();
  // All that it had not got comes back, what its senders still had included.
  CHECK(local.loop.until(
      [&] { return crowd.returned() >= 2 * 2000 && crowd.senders[0]->bus->queued_bytes() == 0; },
      60s));
  // What its socket had been given already, it may have taken: that is little.
  std::size_t unknown = 0;
  for (const auto& [envelope, error] : crowd.senders[0]->returned) {
    if (error.code() == ErrorCode::fate_unknown) {
      ++unknown;
    } else {
      CHECK(error.code() == ErrorCode::no_such_proc);
    }
  }
  CHECK(unknown < crowd.senders[0]->returned.size() / 2);
  CHECK(crowd.senders[0]->call(other.address(), "hello") == "re: hello");
  check_conservation(local.loop, crowd.broker);
}

TEST_CASE(
    "broker pressure: senders that leave while a reader is stopped take no credit of others "
    "along") {
  LocalBroker local;
  Crowd crowd(local, 3);
  crowd.reader->bus->hold_data(true);
  crowd.send(3000);
  crowd.settle(local.loop);
  crowd.senders.erase(crowd.senders.begin());
  crowd.reader->bus->hold_data(false);
  CHECK(local.loop.until(
      [&] {
        return std::ranges::all_of(
            crowd.senders, [](const auto& sender) { return sender->bus->queued_bytes() == 0; });
      },
      60s));
  CHECK(local.loop.until([&] { return crowd.reader->received.size() >= 2 * 3000; }, 60s));
  CHECK(crowd.returned() == 0);
  check_conservation(local.loop, crowd.broker);
}

TEST_CASE(
    "broker pressure: who sends without credit is bounded by the queue and gets the rest back") {
  LocalBroker local(Setting("queue.bytes", "2MiB"));
  TestPeer reader(local.loop, local.endpoint(), launcher_hello());
  reader.up();
  reader.bus->hold_data(true);
  RawPeer rude(local.loop, local.endpoint());
  REQUIRE(rude.greet(launcher_hello()) == "Welcome");
  wire::Envelope envelope;
  envelope.mutate_destination_proc(reader.address().proc);
  envelope.mutate_kind(wire::Kind::message);
  envelope.mutate_lane(wire::Lane::data);
  const std::string body(30 * 1024, 'x');
  for (int i = 0; i < 400; ++i) {
    envelope.mutate_sequence(static_cast<std::uint64_t>(i) + 1);
    rude.send_message(envelope, body);
  }
  const auto came_back = rude.next_control();
  REQUIRE(came_back.has_value());
  REQUIRE(came_back->body_as<wire::Undeliverable>() != nullptr);
  CHECK(from_wire(came_back->body_as<wire::Undeliverable>()->code()) == ErrorCode::queue_full);
  local.loop.run_for(200ms);
  CHECK(local.broker->held() * body.size() < 4 * 1024 * 1024);
  check_conservation(local.loop, *local.broker);
}

TEST_CASE(
    "broker pressure: credit that found a socket full leaves as soon as there is room, whatever "
    "else does") {
  LocalBroker host;
  TestPeer third(host.loop, host.endpoint(), launcher_hello());
  third.up();
  // The room of a socket ends anywhere in a frame; in some rounds it ends in the last one, so that
  // nothing is left but what is on its way.
  for (int extra = 10; extra < 30; ++extra) {
    CAPTURE(extra);
    REQUIRE(host.loop.until([&] { return host.broker->peers() == 1; }));
    TestPeer slow(host.loop, host.endpoint(), launcher_hello());
    slow.up();
    slow.bus->hold_data(true);
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const UnixAddress path(host.dir / "b");
    REQUIRE(::connect(fd.get(), path.get(), path.size()) == 0);
    ZmtpStream::Buffer buffer;
    ZmtpStream sender(std::move(fd), std::make_unique<NullMechanism>("DEALER"), buffer);
    REQUIRE(sender.greet());
    const auto hello = launcher_hello();
    FrameWriter control(wire::Lane::control);
    control.add(wire::Envelope(), encode_control({}, wire::HelloT(hello)));
    Frame first = control.finish();
    REQUIRE(sender.send(first));
    REQUIRE(host.loop.until([&] { return host.broker->peers() == 3; }));

    // The window of the slow one is used up, so that the broker keeps what the sender has for it.
    for (int i = 0; i < 10; ++i)
      REQUIRE(third.bus->send(slow.address(), 1, std::string(60'000, 't')).has_value());
    host.loop.run_for(5ms);
    wire::Envelope envelope;
    envelope.mutate_kind(wire::Kind::message);
    envelope.mutate_lane(wire::Lane::data);
    envelope.mutate_flags(
        kFlagNoReturn);  // nobody says or asks what was taken, which would bring the credit, too
    envelope.mutate_destination_proc(slow.bus->self()->key());
    envelope.mutate_port(1);
    for (int i = 0; i < 8; ++i) {
      FrameWriter data(wire::Lane::data);
      envelope.mutate_sequence(static_cast<std::uint64_t>(i) + 1);
      data.add(envelope, std::string(60'000, 'd'));
      Frame frame = data.finish();
      REQUIRE(host.loop.until([&] { return sender.send(frame); }));
    }
    REQUIRE(host.loop.until([&] { return sender.write_on(); }));
    const auto to_sender =
        Destination::to(ProcId(host.broker->address(), *ProcName::parse(hello.peer)));
    for (int i = 0; i < extra; ++i) {
      REQUIRE(
          third.bus->send(to_sender, 1, std::string(10'000, 'x'), /*no_return=*/true).has_value());
      host.loop.reactor.turn(1ms);
    }
    host.loop.run_for(2ms);
    slow.bus->hold_data(false);
    REQUIRE(host.loop.until([&] { return slow.received.size() == 18; }));
    host.loop.run_for(2ms);
    // Only now does it read: all that it has sent is taken. A heartbeat would say so, too, but not
    // yet.
    std::uint64_t credit = 0;
    const auto listen = [&] {
      std::vector<MessagePart> parts;
      for (std::size_t got = 1; got > 0;) {
        got = sender.fill();
        for (auto next = sender.next(parts); next != ZmtpStream::Next::none;
             next = sender.next(parts)) {
          if (next == ZmtpStream::Next::message)
            credit = std::max(credit, FrameReader::open(parts)->header().credit());
          parts.clear();
        }
      }
      return credit >= 8 * 60'000 - kCreditStep;
    };
    CHECK(host.loop.until(listen, 2s));
  }
}
