#include "common/bus/direct_path.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdint>
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

/// All of a frame.
template <typename Sender>
DirectSocket::Outcome send_all(Sender& sender, const Frame& frame) {
  std::size_t sent = 0;
  return sender.send(frame, sent);
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
      if (send_all(roomy, frame_of({std::string(30'000, 'x')})) == DirectSocket::Outcome::done)
        ++rooms;
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
    CHECK(send_all(other, frame_of(bodies)) == DirectSocket::Outcome::done);
    CHECK(send_all(other, frame_of({"d"})) == DirectSocket::Outcome::done);
    one.turn();
    CHECK(one.received == std::vector<std::string>{bodies[0], bodies[1], bodies[2], "d"});
    CHECK(send_all(other, frame_of({"e"})) == DirectSocket::Outcome::done);
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
                                         std::string(DirectSocket::kPacket + 40, 'x'),
                                         std::string(DirectSocket::kPacket + 41, 'x')};
  for (const auto& packet : packets) {
    CAPTURE(packet.size());
    OnePath one;
    REQUIRE(::send(one.other.get(), packet.data(), packet.size(), MSG_DONTWAIT) >= 0);
    one.turn();
    CHECK(one.received.empty());
    CHECK(one.ended == 1);
  }
}

TEST_CASE("direct_path: a frame that is larger than a packet comes whole, or not at all") {
  OnePath one;
  constexpr int kFewBytes = 128 * 1024;
  ::setsockopt(one.other.get(), SOL_SOCKET, SO_SNDBUF, &kFewBytes, sizeof kFewBytes);
  DirectSocket other = one.other_end();
  const auto large = [](std::size_t size) {
    std::string body(size, '\0');
    for (std::size_t i = 0; i < size; ++i) body[i] = static_cast<char>(i * 31 + i / 251);
    return body;
  };
  // Larger and smaller than the one before, and two that have several parts.
  const std::vector<std::vector<std::string>> frames = {
      {large(1'000'000)},   {large(100'000), "a", large(200'000)}, {"b"}, {large(20'000)},
      {large(1024 * 1024)}, {large(50'000), large(40'000)}};
  for (const auto& bodies : frames) {
    one.received.clear();
    const Frame frame = frame_of(bodies);
    std::size_t sent = 0;
    while (other.send(frame, sent) == DirectSocket::Outcome::not_now) {
      REQUIRE(sent > 0);
      one.turn();
    }
    one.turn();
    CHECK((one.received == bodies));
  }
  // One that is given up on the way is not seen; what follows is.
  one.received.clear();
  std::size_t sent = 0;
  REQUIRE(other.send(frame_of({large(1'000'000)}), sent) == DirectSocket::Outcome::not_now);
  one.turn();
  REQUIRE(send_all(other, frame_of({"c", large(90'000)})) == DirectSocket::Outcome::done);
  one.turn();
  CHECK((one.received == std::vector<std::string>{"c", large(90'000)}));
  CHECK(one.ended == 0);
}

TEST_CASE("direct_path: a packet that does not go on with its frame ends it") {
  struct Prefix {
    std::uint32_t count = 1;
    std::array<std::uint32_t, DirectSocket::kMostParts> sizes{};
    std::uint32_t from = 0;
  };
  constexpr auto kPacket = static_cast<std::uint32_t>(DirectSocket::kPacket);
  const auto packet = [](const Prefix& prefix, std::size_t size) {
    std::string text(reinterpret_cast<const char*>(&prefix), sizeof prefix);
    return text + std::string(size, '\0');
  };
  const Prefix whole{1, {3 * kPacket}, 0};
  const std::vector<std::pair<Prefix, std::uint32_t>> seconds = {
      {{1, {3 * kPacket}, 2 * kPacket}, kPacket},      // one is left out
      {{1, {3 * kPacket}, kPacket - 1}, kPacket},      // and overlaps
      {{1, {3 * kPacket}, kPacket}, kPacket - 1},      // it has not all that it could have
      {{1, {2 * kPacket}, kPacket}, kPacket},          // of another frame
      {{2, {kPacket, 2 * kPacket}, kPacket}, kPacket}  // the same
  };
  for (const auto& [second, size] : seconds) {
    CAPTURE(second.from);
    OnePath one;
    for (const auto& text : {packet(whole, kPacket), packet(second, size)})
      REQUIRE(::send(one.other.get(), text.data(), text.size(), MSG_DONTWAIT) > 0);
    one.turn();
    CHECK(one.ended == 1);
    CHECK(one.received.empty());
  }
  // None that begins in the middle, or would be larger than any.
  for (const Prefix& first :
       {Prefix{1, {3 * kPacket}, kPacket}, Prefix{2, {UINT32_MAX, UINT32_MAX}, 0},
        Prefix{1, {static_cast<std::uint32_t>(DirectSocket::kMostBytes) + 1}, 0}}) {
    OnePath one;
    const auto text = packet(first, kPacket);
    REQUIRE(::send(one.other.get(), text.data(), text.size(), MSG_DONTWAIT) > 0);
    one.turn();
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
    REQUIRE(send_all(other, writer.finish()) == DirectSocket::Outcome::done);
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
    while (send_all(*one.path, frame_of({std::string(30'000, 'x')})) == DirectSocket::Outcome::done)
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
  REQUIRE(send_all(other, frame_of({"a"})) == DirectSocket::Outcome::done);
  one.turn();
  CHECK(one.received.empty());
  one.path->hold(false);
  one.turn();
  CHECK(one.received == std::vector<std::string>{"a"});
  one.path->hold(true);
  REQUIRE(send_all(other, frame_of({"b"})) == DirectSocket::Outcome::done);
  one.path->end();
  CHECK(one.received == std::vector<std::string>{"a", "b"});
  CHECK(send_all(other, frame_of({"c"})) == DirectSocket::Outcome::ended);
}

TEST_CASE(
    "direct_path: all that has come is what was there, though the other end goes on sending") {
  OnePath one;
  DirectSocket other = one.other_end();
  std::atomic<bool> is_over{false};
  std::atomic<std::size_t> sent{0};
  std::thread sender([&] {
    while (!is_over) {
      if (send_all(other, frame_of({std::to_string(sent)})) == DirectSocket::Outcome::done) ++sent;
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

TEST_CASE("direct_path: a receiver looks again for a moment after something large only") {
  DirectPace pace(/*may_linger=*/true);
  CHECK_FALSE(pace.lingers(/*has_large=*/false));
  CHECK(pace.lingers(/*has_large=*/true));
  const auto begin = Reactor::Clock::now();
  while (pace.lingers(/*has_large=*/false)) REQUIRE(Reactor::Clock::now() < begin + 10s);
  CHECK_FALSE(pace.lingers(/*has_large=*/false));
  CHECK(pace.lingers(/*has_large=*/true));
  DirectPace never(/*may_linger=*/false);
  CHECK_FALSE(never.lingers(/*has_large=*/true));
}

TEST_CASE("direct_path: a program that has enough to do is given no more, unless it is stuck") {
  OnePath one;
  DirectSocket other = one.other_end();
  one.backlog = DirectPace::kMostBacklog + 3;
  REQUIRE(send_all(other, frame_of({"a"})) == DirectSocket::Outcome::done);
  // It gets on.
  for (int i = 0; i < 3; ++i) {
    one.turn(DirectPace::kStuck - 2ms);
    CHECK(one.received.empty());
    --one.backlog;
    one.turn(1ms);
  }
  CHECK(one.received == std::vector<std::string>{"a"});
  // It takes nothing.
  one.backlog = DirectPace::kMostBacklog + 1;
  REQUIRE(send_all(other, frame_of({"b"})) == DirectSocket::Outcome::done);
  one.turn(DirectPath::kPause);
  CHECK(one.received.size() == 1);
  one.turn(DirectPace::kStuck);
  CHECK(one.received == std::vector<std::string>{"a", "b"});
}
