// Direct paths between two peers of one broker.
#include <poll.h>

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "common/bus/direct_paths.h"
#include "common/bus/share_inbox.h"
#include "tests/world/broker.h"
#include "tests/world/hello.h"
#include "tests/world/peer.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

struct TalkingPair {
  explicit TalkingPair(bool is_enabled = true) {
    for (auto* const peer : {&a, &b}) {
      peer->up();
      peer->bus->set_direct(is_enabled);
    }
  }
  /// Calls until there is a path that both use.
  void talk() {
    for (int i = 0; i < 200 && !has_path(); ++i) {
      INFO(i);
      REQUIRE(a.call(b.address(), "x").value() == "re: x");
    }
    REQUIRE(has_path());
    REQUIRE(a.call(b.address(), "x").value() == "re: x");
    a.received.clear();
    b.received.clear();
  }
  /// Once there is room for it.
  void send(TestPeer& from, TestPeer& to, const std::string& body) {
    for (int turns = 0; !from.bus->send(to.address(), 1, body); ++turns) {
      REQUIRE(turns < 10'000);
      b.bus->hold_data(false);
      host.loop.reactor.turn(1ms);
    }
  }
  bool has_path() const { return a.bus->direct().count() == 1 && b.bus->direct().count() == 1; }
  /// Messages that the broker has seen since the last call.
  std::uint64_t through_broker() {
    const auto now = host.broker->counters().received;
    return now - std::exchange(seen_, now);
  }
  LocalBroker host;
  TestPeer a{host.loop, host.endpoint(), launcher_hello()};
  TestPeer b{host.loop, host.endpoint(), launcher_hello()};

 private:
  std::uint64_t seen_ = 0;
};

/// What `peer` has received is 0, 1, 2 ... `count` - 1, each followed by something.
void check_order(const TestPeer& peer, std::size_t count) {
  REQUIRE(peer.received.size() == count);
  for (std::size_t i = 0; i < count; ++i) {
    INFO(i);
    REQUIRE(std::stoul(peer.received[i].second) == i);
  }
}

}  // namespace

TEST_CASE("direct paths: two that talk enough do so without the broker, each under its name") {
  TalkingPair pair;
  pair.talk();
  pair.through_broker();
  for (int i = 0; i < 100; ++i) REQUIRE(pair.a.call(pair.b.address(), "y").value() == "re: y");
  CHECK(pair.through_broker() < 10);
  const auto& [envelope, body] = pair.b.received.back();
  CHECK(body == "y");
  CHECK(envelope.source_proc() == pair.a.address().proc);
  CHECK(envelope.source_host() == pair.a.address().host);
  CHECK(envelope.role() == pair.a.role);
  // The other direction, with bodies up to what a path takes, and above: each that is larger than
  // the one before comes in two pieces.
  for (const std::size_t size :
       {0UL, 1UL, 4000UL, 40'000UL, 98'304UL, 10UL, 69'632UL, 98'305UL, 98'304UL, 1'000'000UL}) {
    CAPTURE(size);
    std::string large(size, 'z');
    for (std::size_t i = 0; i < size; ++i) large[i] = static_cast<char>(i * 31 + i / 251);
    REQUIRE(pair.b.bus->send(pair.a.address(), 1, large).has_value());
    REQUIRE(pair.host.loop.until([&] { return !pair.a.received.empty(); }));
    CHECK((pair.a.received.back().second == large));
    pair.a.received.clear();
  }
  pair.host.loop.until([&] { return pair.b.bus->traffic().outstanding == 0; });
  CHECK(pair.b.bus->traffic().outstanding == 0);
  CHECK(pair.a.returned.empty());
  CHECK(pair.b.returned.empty());
  check_conservation(pair.host.loop, *pair.host.broker);
}

TEST_CASE("direct paths: a large body leaves at once, behind what waits, or waits for room") {
  TalkingPair pair;
  std::string body = "0 " + std::string(60'000, 'z');
  CHECK_FALSE(pair.a.bus->send_direct(pair.b.address(), 1, body).has_left);
  pair.talk();
  Bus& bus = *pair.a.bus;
  const auto to = pair.b.address();
  const auto numbered = [](std::size_t number) {
    return std::to_string(number) + std::string(60'000, 'z');
  };
  const auto before = bus.traffic().outstanding;
  REQUIRE(bus.send_direct(to, 1, body).has_left);
  body.assign(body.size(), '?');  // it has left
  CHECK(bus.traffic().outstanding == before + 1);
  CHECK(bus.load().bytes == 0);
  REQUIRE(bus.send(to, 1, "1").has_value());
  REQUIRE(bus.send_direct(to, 1, numbered(2)).has_left);
  CHECK(bus.load().bytes == 0);
  const auto too_large = bus.send_direct(to, 1, std::string(DirectOutlets::kMostBody + 1, 'z'));
  CHECK_FALSE(too_large.has_left);
  CHECK(too_large.full == nullptr);
  // Until there is no room.
  std::size_t count = 3;
  auto sent = bus.send_direct(to, 1, numbered(count));
  for (; count < 1000 && sent.has_left; sent = bus.send_direct(to, 1, numbered(count))) ++count;
  CHECK(count < 1000);
  REQUIRE(sent.full != nullptr);
  // Nor behind something that waits for it.
  REQUIRE(bus.send(to, 1, numbered(count)).has_value());
  bus.flush();
  CHECK(bus.load().bytes > 60'000);
  sent = bus.send_direct(to, 1, numbered(count + 1));
  CHECK_FALSE(sent.has_left);
  REQUIRE(sent.full != nullptr);
  // There is room once the other end has read.
  pollfd room{sent.full->get(), POLLOUT, 0};
  CHECK(::poll(&room, 1, 0) == 0);
  REQUIRE(pair.host.loop.until([&] { return pair.b.received.size() == count + 1; }));
  CHECK(::poll(&room, 1, 0) == 1);
  CHECK(room.revents == POLLOUT);
  REQUIRE(bus.send_direct(to, 1, numbered(count + 1)).has_left);
  REQUIRE(pair.host.loop.until([&] { return pair.b.received.size() == count + 2; }));
  check_order(pair.b, count + 2);
  CHECK(pair.b.received[0].second == "0 " + std::string(60'000, 'z'));
  REQUIRE(pair.host.loop.until([&] { return bus.traffic().outstanding == 0; }));
  CHECK(pair.a.returned.empty());
  check_conservation(pair.host.loop, *pair.host.broker);
}

TEST_CASE("direct paths: what is larger than the socket leaves in pieces, or is kept") {
  TalkingPair pair;
  pair.talk();
  Bus& bus = *pair.a.bus;
  const auto to = pair.b.address();
  const auto numbered = [](std::size_t number) {
    return std::to_string(number) + std::string(1'000'000, 'z');
  };
  const auto check_arrived = [&](std::size_t count) {
    REQUIRE(pair.host.loop.until([&] { return pair.b.received.size() == count; }));
    check_order(pair.b, count);
  };
  std::string body;
  DirectPaths::SentNow sent;
  std::size_t count = 0;
  // Until the socket, which may take some, has taken a part of one.
  const auto begin = [&] {
    do {
      body = numbered(count++);
      sent = bus.send_direct(to, 1, body);
    } while (sent.has_left && count < 1000);
    REQUIRE(sent.begun != 0);
  };
  begin();
  // A message that is sent meanwhile does not overtake it.
  REQUIRE(bus.send(to, 1, std::to_string(count++)).has_value());
  bus.flush();
  REQUIRE(pair.host.loop.until([&] {
    pollfd room{sent.full->get(), POLLOUT, 0};
    if (::poll(&room, 1, 0) == 1) sent = bus.go_on_direct(to.proc, sent.begun);
    return sent.has_left;
  }));
  body.assign(body.size(), '?');
  check_arrived(count);
  CHECK((pair.b.received[count - 2].second == numbered(count - 2)));
  // Its sender does not wait.
  begin();
  bus.keep_direct(to.proc, sent.begun);
  body.assign(body.size(), '?');
  CHECK(bus.load().bytes > 1'000'000);
  CHECK(bus.send_direct(to, 1, numbered(count)).full != nullptr);
  REQUIRE(bus.send(to, 1, std::to_string(count++)).has_value());
  check_arrived(count);
  CHECK((pair.b.received[count - 2].second == numbered(count - 2)));
  CHECK(bus.load().bytes == 0);
  // The path ends meanwhile: all of it goes through the broker.
  begin();
  bus.set_direct(false);
  body.assign(body.size(), '?');
  CHECK(bus.go_on_direct(to.proc, sent.begun).has_left);
  bus.keep_direct(to.proc, sent.begun);
  check_arrived(count);
  CHECK((pair.b.received[count - 1].second == numbered(count - 1)));
  REQUIRE(pair.host.loop.until([&] { return bus.traffic().outstanding == 0; }));
  CHECK(pair.a.returned.empty());
  check_conservation(pair.host.loop, *pair.host.broker);
}

TEST_CASE("direct paths: without leave of both sides there is none") {
  TalkingPair pair(/*is_enabled=*/false);
  pair.a.bus->set_direct(true);
  for (int i = 0; i < 300; ++i) REQUIRE(pair.a.call(pair.b.address(), "x").value() == "re: x");
  CHECK(pair.a.bus->direct().empty());
  CHECK(pair.b.bus->direct().empty());
}

TEST_CASE("direct paths: a proc has none to itself") {
  TalkingPair pair;
  for (int i = 0; i < 300; ++i) REQUIRE(pair.a.call(pair.a.address(), "x").value() == "re: x");
  CHECK(pair.a.bus->direct().empty());
  pair.talk();
}

TEST_CASE("direct paths: a broker that is told so allows none") {
  LocalBroker host(Setting{"direct.paths", "false"});
  TestPeer a(host.loop, host.endpoint(), launcher_hello()),
      b(host.loop, host.endpoint(), launcher_hello());
  for (auto* const peer : {&a, &b}) peer->up().bus->set_direct(true);
  for (int i = 0; i < 300; ++i) REQUIRE(a.call(b.address(), "x").value() == "re: x");
  CHECK(a.bus->direct().empty());
  CHECK(b.bus->direct().empty());
}

TEST_CASE("direct paths: when both ask at once, they agree on one") {
  for (int round = 0; round < 10; ++round) {
    TalkingPair pair;
    for (int i = 0; i < 100; ++i) {
      pair.send(pair.a, pair.b, std::to_string(i));
      pair.send(pair.b, pair.a, std::to_string(i));
      if (i % (round + 1) == 0) pair.host.loop.reactor.turn(0ms);
    }
    REQUIRE(pair.host.loop.until([&] {
      return pair.has_path() && pair.a.received.size() == 100 && pair.b.received.size() == 100;
    }));
    check_order(pair.a, 100);
    check_order(pair.b, 100);
    pair.host.loop.run_for(20ms);
    for (int i = 100; i < 300; ++i) {
      pair.send(pair.a, pair.b, std::to_string(i));
      pair.send(pair.b, pair.a, std::to_string(i));
    }
    REQUIRE(pair.host.loop.until(
        [&] { return pair.a.received.size() == 300 && pair.b.received.size() == 300; }));
    check_order(pair.a, 300);
    check_order(pair.b, 300);
    CHECK(pair.has_path());
  }
}

TEST_CASE("direct paths: a proc has 64 at most; the broker does for the others") {
  LocalBroker host;
  TestPeer middle(host.loop, host.endpoint(), launcher_hello());
  middle.up().bus->set_direct(true);
  std::vector<std::unique_ptr<TestPeer>> others;
  for (std::size_t i = 0; i < DirectOutlets::kMostPaths + 4; ++i) {
    others.push_back(std::make_unique<TestPeer>(host.loop, host.endpoint(), launcher_hello()));
    others.back()->up().bus->set_direct(true);
    middle.received.clear();
    for (int sent = 0; sent < 100; ++sent)
      REQUIRE(others.back()->bus->send(middle.address(), 1, "x").has_value());
    const auto paths = std::min(i + 1, DirectOutlets::kMostPaths);
    REQUIRE(host.loop.until(
        [&] { return middle.received.size() == 100 && middle.bus->direct().count() == paths; }));
  }
  CHECK(middle.bus->direct().count() == DirectOutlets::kMostPaths);
  CHECK(others.back()->bus->direct().empty());
  // Those that end make room.
  others.erase(others.begin(), others.begin() + 8);
  REQUIRE(host.loop.until(
      [&] { return middle.bus->direct().count() == DirectOutlets::kMostPaths - 8; }));
}

TEST_CASE("direct paths: messages stay in order, whichever way they go") {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    TalkingPair pair;
    pair.talk();
    std::size_t sent = 0, back = 0;
    const auto size = [&]() -> std::size_t {
      switch (random() % 8) {
        case 0: return 100'000;  // through the broker
        case 1: return 50'000;   // detached
        case 2: return random() % 3000;
        default: return 0;
      }
    };
    for (int round = 0; round < 60; ++round) {
      const auto burst = random() % 200;
      for (unsigned i = 0; i < burst; ++i)
        pair.send(pair.a, pair.b, std::to_string(sent++) + ' ' + std::string(size(), '.'));
      for (unsigned i = 0; i < burst / 3; ++i)
        pair.send(pair.b, pair.a, std::to_string(back++) + ' ' + std::string(size(), '.'));
      // A receiver that takes nothing for a while.
      if (random() % 4 == 0) pair.b.bus->hold_data(true);
      for (auto i = random() % 6; i > 0; --i) pair.host.loop.reactor.turn(0ms);
      if (random() % 3 == 0) pair.b.bus->hold_data(false);
    }
    pair.b.bus->hold_data(false);
    REQUIRE(pair.host.loop.until(
        [&] { return pair.b.received.size() == sent && pair.a.received.size() == back; }));
    check_order(pair.b, sent);
    check_order(pair.a, back);
    CHECK(pair.a.returned.empty());
    CHECK(pair.b.returned.empty());
    REQUIRE(pair.host.loop.until([&] {
      return pair.a.bus->traffic().outstanding == 0 && pair.b.bus->traffic().outstanding == 0;
    }));
    check_conservation(pair.host.loop, *pair.host.broker);
  }
}

TEST_CASE("direct paths: one that ends with its broker is made again, and nothing is lost") {
  TalkingPair pair;
  pair.talk();
  const auto to_b = pair.b.address(), to_a = pair.a.address();
  std::size_t sent = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 100; ++i)
      REQUIRE(pair.a.bus->send(to_b, 1, std::to_string(sent++)).has_value());
    pair.host.broker.reset();
    pair.host.loop.run_for(50ms);
    CHECK(pair.a.bus->direct().empty());
    CHECK(pair.b.bus->direct().empty());
    for (int i = 0; i < 100; ++i)
      REQUIRE(pair.a.bus->send(to_b, 1, std::to_string(sent++)).has_value());
    pair.host.broker = start_broker(pair.host.loop, "unix:" + (pair.host.dir / "b"));
    REQUIRE(pair.host.loop.until([&] { return pair.a.bus->is_up() && pair.b.bus->is_up(); }));
    REQUIRE(pair.host.loop.until([&] { return pair.a.bus->traffic().outstanding == 0; }, 30s));
    const auto traffic = pair.a.bus->traffic();
    CHECK(traffic.sent.taken + traffic.sent.unknown + traffic.sent.returned == traffic.sent.sent);
    pair.a.received.clear();
    pair.b.received.clear();
    for (int i = 0; i < 200 && !pair.has_path(); ++i)
      REQUIRE(pair.a.call(to_b, "x").value() == "re: x");
    CHECK(pair.has_path());
    REQUIRE(pair.b.call(to_a, "x").value() == "re: x");
  }
}

TEST_CASE("direct paths: what a proc has on its way when it ends is told") {
  TalkingPair pair;
  pair.talk();
  const auto to_b = pair.b.address();
  std::optional<Result<std::string>> answer;
  pair.b.bus->hold_data(true);
  pair.a.bus->call(to_b, 1, "never", 20s,
                   [&](Result<std::string> result) { answer = std::move(result); });
  for (int i = 0; i < 10; ++i) REQUIRE(pair.a.bus->send(to_b, 1, "lost").has_value());
  pair.a.bus->flush();
  pair.b.bus.reset();
  REQUIRE(pair.host.loop.until([&] { return answer.has_value(); }, 10s));
  CHECK_FALSE(answer->has_value());
  REQUIRE(pair.host.loop.until([&] { return pair.a.bus->traffic().outstanding == 0; }, 10s));
  CHECK(pair.a.returned.size() == 10);
  CHECK(pair.a.bus->direct().empty());
}
