#include "common/bus/direct_path.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/bus/direct_outlets.h"

using namespace std::chrono_literals;
using namespace meshbus;

namespace {

Frame frame_of(const std::vector<std::string>& bodies) {
  FrameWriter writer(wire::Lane::data);
  wire::Envelope envelope;
  envelope.mutate_kind(wire::Kind::message);
  // What the other end claims to be.
  envelope.mutate_source_proc(666);
  envelope.mutate_role(wire::Role::operate);
  for (const auto& body : bodies) writer.add(envelope, body);
  return writer.finish();
}

/// A path in this process, and the other end of its socket.
struct OnePath {
  OnePath() {
    auto made = DirectSocket::make_pair();
    REQUIRE(made.has_value());
    other = std::move(made->second);
    path =
        std::make_shared<DirectPath>(reactor, 7, std::move(made->first), ShareTicket{1, 2}, events);
    events.backlog = [this] { return backlog; };
    events.on_message = [this](const FrameReader::Message& message,
                               const std::shared_ptr<const void>&) {
      CHECK(message.envelope.source_proc() == 7);
      CHECK(message.envelope.role() == wire::Role::proc);
      received.emplace_back(message.body);
    };
    events.on_room = [this](DirectPath& roomy) {
      if (roomy.send(frame_of({std::string(30'000, 'x')})) == DirectSocket::Outcome::done) ++rooms;
    };
    events.on_blocked = [this](DirectPath&) { ++blocked; };
    events.on_ended = [this](DirectPath& ended_path) {
      ++ended;
      ended_path.end();
    };
    wire::Envelope source;
    source.mutate_source_proc(7);
    source.mutate_role(wire::Role::proc);
    path->bind(source, /*is_held=*/false);
  }
  DirectSocket other_end() { return *DirectSocket::adopt(std::move(other)); }
  void turn(std::chrono::milliseconds ahead = 0ms) {
    now += ahead;
    for (int i = 0; i < 4; ++i) reactor.turn(0ms);
  }

  Reactor::Time now = Reactor::Clock::now();
  Reactor reactor{[this] { return now; }};
  DirectPath::Events events;
  UniqueFd other;
  std::shared_ptr<DirectPath> path;
  std::vector<std::string> received;
  int rooms = 0, blocked = 0, ended = 0;
  std::size_t backlog = 0;
};

}  // namespace

TEST_CASE("direct_path: frames come whole, under the name that the broker gave, then the end") {
  OnePath one;
  {
    DirectSocket other = one.other_end();
    const std::vector<std::string> bodies{"a", std::string(5000, 'b'), std::string(90'000, 'c')};
    CHECK(other.send(frame_of(bodies)) == DirectSocket::Outcome::done);
    CHECK(other.send(frame_of({"d"})) == DirectSocket::Outcome::done);
    one.turn();
    CHECK(one.received == std::vector<std::string>{bodies[0], bodies[1], bodies[2], "d"});
    CHECK(other.send(frame_of({"e"})) == DirectSocket::Outcome::done);
    CHECK(one.ended == 0);
  }
  one.turn();
  CHECK(one.received.back() == "e");
  CHECK(one.ended == 1);
}

TEST_CASE("direct_path: what is no frame ends it") {
  const std::vector<std::string> packets{"",
                                         "x",
                                         std::string(48, '\0'),
                                         std::string(48, '\xff'),
                                         std::string(150'000, 'x'),
                                         std::string(DirectSocket::kMostBytes, 'x'),
                                         std::string(DirectSocket::kMostBytes + 1, 'x')};
  for (const auto& packet : packets) {
    CAPTURE(packet.size());
    OnePath one;
    REQUIRE(::send(one.other.get(), packet.data(), packet.size(), MSG_DONTWAIT) >= 0);
    one.turn();
    CHECK(one.received.empty());
    CHECK(one.ended == 1);
  }
}

TEST_CASE("direct_path: casts and questions do not come by it") {
  for (const bool is_cast : {false, true}) {
    OnePath one;
    DirectSocket other = one.other_end();
    FrameWriter writer(wire::Lane::data);
    wire::Envelope envelope;
    envelope.mutate_kind(is_cast ? wire::Kind::message : wire::Kind::control);
    envelope.mutate_flags(is_cast ? kFlagCast : 0);
    writer.add(envelope, "x");
    REQUIRE(other.send(writer.finish()) == DirectSocket::Outcome::done);
    one.turn();
    CHECK(one.received.empty());
    CHECK(one.ended == 1);
  }
}

TEST_CASE("direct_path: one that takes nothing says so in time, and when it takes more") {
  OnePath one;
  DirectSocket other = one.other_end();
  const auto fill = [&] {
    int sent = 0;
    while (one.path->send(frame_of({std::string(30'000, 'x')})) == DirectSocket::Outcome::done)
      ++sent;
    return sent;
  };
  REQUIRE(fill() > 0);
  one.turn(DirectPath::kBlocked - 1ms);
  CHECK(one.blocked == 0);
  one.turn(1ms);
  CHECK(one.blocked == 1);
  CHECK(one.rooms == 0);
  // The other end reads.
  REQUIRE(fill() == 0);
  std::vector<MessagePart> parts;
  while (other.receive(parts) == DirectSocket::Outcome::done) parts.clear();
  one.turn();
  CHECK(one.rooms == 1);
  CHECK(fill() > 0);
}

TEST_CASE("direct_path: while it is held, what comes stays in the socket") {
  OnePath one;
  DirectSocket other = one.other_end();
  one.path->hold(true);
  REQUIRE(other.send(frame_of({"a"})) == DirectSocket::Outcome::done);
  one.turn();
  CHECK(one.received.empty());
  one.path->hold(false);
  one.turn();
  CHECK(one.received == std::vector<std::string>{"a"});
  one.path->hold(true);
  REQUIRE(other.send(frame_of({"b"})) == DirectSocket::Outcome::done);
  one.path->end();
  CHECK(one.received == std::vector<std::string>{"a", "b"});
  CHECK(other.send(frame_of({"c"})) == DirectSocket::Outcome::ended);
}

TEST_CASE(
    "direct_path: all that has come is what was there, though the other end goes on sending") {
  OnePath one;
  DirectSocket other = one.other_end();
  std::atomic<bool> is_over{false};
  std::atomic<std::size_t> sent{0};
  std::thread sender([&] {
    while (!is_over) {
      if (other.send(frame_of({std::to_string(sent)})) == DirectSocket::Outcome::done) ++sent;
    }
  });
  std::size_t received = 0;
  const auto receive = [&] {
    one.received.clear();
    one.path->receive_all();
    REQUIRE(one.received.size() < 10'000);
    for (const auto& number : one.received) REQUIRE(number == std::to_string(received++));
  };
  for (int i = 0; i < 100; ++i) receive();
  is_over = true;
  sender.join();
  receive();
  CHECK(received == sent);
}

TEST_CASE("direct_path: only such a socket is taken for one") {
  CHECK_FALSE(DirectSocket::adopt(UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC))).has_value());
  CHECK_FALSE(
      DirectSocket::adopt(UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0))).has_value());
  CHECK_FALSE(
      DirectSocket::adopt(UniqueFd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0))).has_value());
  CHECK_FALSE(DirectSocket::adopt(UniqueFd()).has_value());
}

TEST_CASE("direct_path: a program that has enough to do is given no more, unless it is stuck") {
  OnePath one;
  DirectSocket other = one.other_end();
  one.backlog = DirectPath::kMostBacklog + 3;
  REQUIRE(other.send(frame_of({"a"})) == DirectSocket::Outcome::done);
  // It gets on.
  for (int i = 0; i < 3; ++i) {
    one.turn(DirectPath::kStuck - 2ms);
    CHECK(one.received.empty());
    --one.backlog;
    one.turn(1ms);
  }
  CHECK(one.received == std::vector<std::string>{"a"});
  // It takes nothing.
  one.backlog = DirectPath::kMostBacklog + 1;
  REQUIRE(other.send(frame_of({"b"})) == DirectSocket::Outcome::done);
  one.turn(DirectPath::kPause);
  CHECK(one.received.size() == 1);
  one.turn(DirectPath::kStuck);
  CHECK(one.received == std::vector<std::string>{"a", "b"});
}
