#include "broker/links/link_stream.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "wire/frame_generated.h"

using namespace meshbus;

namespace {

Frame frame_of(std::vector<std::uint64_t> messages, wire::Lane lane = wire::Lane::data, std::size_t size = 8) {
  FrameWriter writer(lane, /*link=*/true);
  for (const auto message : messages) {
    wire::Envelope envelope;
    envelope.mutate_sequence(message);
    envelope.mutate_kind(wire::Kind::message);
    writer.add(envelope, std::string(size, 'x'));
  }
  return writer.finish();
}

std::vector<std::uint64_t> messages_of(Frame& frame) {
  std::vector<std::uint64_t> messages;
  auto reader = FrameReader::open(frame.parts);
  FrameReader::Message message;
  while (reader->next(message)) messages.push_back(message.envelope.sequence());
  return messages;
}

std::vector<std::uint64_t> given_up(LinkStream& stream) {
  std::vector<std::uint64_t> messages;
  stream.give_up([&](const wire::Envelope& envelope, Bytes) { messages.push_back(envelope.sequence()); });
  return messages;
}

using Messages = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("link_stream: what is acknowledged is forgotten, the rest is sent again by the next connection, in order") {
  LinkStream stream(1 << 20, {});
  for (std::uint64_t i = 1; i <= 4; ++i) {
    CHECK(stream.next_number() == i);
    stream.keep(frame_of({10 * i, 10 * i + 1}));
  }
  CHECK(stream.kept() == 8);
  CHECK(stream.replay() == nullptr);
  CHECK(stream.acknowledge(2) == 4);
  CHECK(stream.acknowledge(2) == 0);
  CHECK(stream.acknowledge(1) == 0);
  stream.rewind();
  REQUIRE(stream.replay() != nullptr);
  CHECK(stream.replay_number() == 3);
  CHECK(messages_of(*stream.replay()) == Messages{30, 31});
  stream.replayed();
  // The other one had taken it all the same, and says so while we send it again.
  CHECK(stream.acknowledge(3) == 2);
  CHECK(stream.replay_number() == 4);
  stream.replayed();
  CHECK(stream.replay() == nullptr);
  stream.keep(frame_of({50}));
  CHECK(stream.replay() == nullptr);
  CHECK(stream.acknowledge(5) == 3);
  CHECK_FALSE(stream.has_kept());
  CHECK(stream.kept_bytes() == 0);
}

TEST_CASE("link_stream: an acknowledgement of what was never sent does nothing") {
  LinkStream stream(1 << 20, {});
  stream.keep(frame_of({1}));
  CHECK(stream.acknowledge(2) == 0);
  CHECK(stream.acknowledge(UINT64_MAX) == 0);
  CHECK(stream.kept() == 1);
  CHECK(stream.acknowledge(1) == 1);
}

TEST_CASE("link_stream: the window bounds the bytes of each lane; one frame always fits") {
  LinkStream stream(1000, {});
  const Frame large = frame_of({1}, wire::Lane::data, 5000), small = frame_of({1}, wire::Lane::data, 100);
  CHECK(stream.has_room(large));
  stream.keep(frame_of({1}, wire::Lane::data, 600));
  CHECK_FALSE(stream.has_room(large));
  CHECK(stream.has_room(small));
  stream.keep(frame_of({2}, wire::Lane::data, 200));
  CHECK_FALSE(stream.has_room(small));
  CHECK(stream.has_room(frame_of({3}, wire::Lane::control, 100)));
  stream.keep(frame_of({3}, wire::Lane::control, 900));
  CHECK_FALSE(stream.has_room(frame_of({4}, wire::Lane::control, 100)));
  stream.acknowledge(1);
  CHECK(stream.has_room(small));
}

TEST_CASE("link_stream: giving up names every message once, and numbers are not used again") {
  LinkStream stream(1 << 20, {});
  stream.keep(frame_of({1, 2}));
  stream.keep(frame_of({3}, wire::Lane::control));
  stream.acknowledge(0);
  CHECK(given_up(stream) == Messages{1, 2, 3});
  CHECK(given_up(stream).empty());
  CHECK(stream.kept() == 0);
  CHECK(stream.next_number() == 3);
  // A late acknowledgement of what was given up.
  stream.keep(frame_of({4}));
  CHECK(stream.acknowledge(2) == 0);
  CHECK(stream.acknowledge(3) == 1);
  // It goes on after being forgotten.
  LinkStream later(1 << 20, stream.memory());
  CHECK(later.next_number() == 4);
}

TEST_CASE("link_stream: a number is taken once; what a sender gave up leaves a gap; a new life begins anew") {
  LinkStream stream(1 << 20, {});
  stream.begin_incarnation(77);
  CHECK(stream.take(1));
  CHECK(stream.take(2));
  CHECK_FALSE(stream.take(1));
  CHECK_FALSE(stream.take(2));
  CHECK(stream.take(5));
  CHECK_FALSE(stream.take(3));
  CHECK(stream.taken() == 5);
  LinkStream later(1 << 20, stream.memory());
  CHECK_FALSE(later.take(5));
  CHECK(later.memory().incarnation == 77);
  later.begin_incarnation(78);
  CHECK(later.take(1));
}

namespace {

/// Two brokers and the connections between them, in one direction: each connection keeps its order, is cut at any moment with what is in it
/// either lost or still delivered later, and several exist at a time.
struct World {
  explicit World(std::uint64_t seed) : random(seed) {}

  struct Sent {
    std::uint64_t number;
    Messages messages;
  };
  struct Connection {
    std::deque<Sent> on_way;
    std::deque<std::uint64_t> acks;
    bool is_cut = false;
  };

  std::size_t pick(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random); }
  Connection& now() { return connections.back(); }

  void connect() {
    // The one before lives on, is cut with what is in it, or its last words are still read.
    if (!connections.empty()) {
      now().is_cut = true;
      if (pick(2) == 0) now().on_way.clear();
      while (!now().on_way.empty() && pick(2) == 0) now().on_way.pop_back();
    }
    connections.emplace_back();
    // What the new connection's first word acknowledges.
    if (pick(4) != 0) sender.acknowledge(receiver.taken());
    sender.rewind();
  }
  void push() {
    Messages messages(1 + pick(3));
    for (auto& message : messages) message = ++pushed;
    Frame frame = frame_of(messages);
    if (!sender.has_room(frame) || sender.replay() != nullptr) {
      pushed -= messages.size();
      return;
    }
    now().on_way.push_back({sender.next_number(), messages});
    sender.keep(std::move(frame));
  }
  void replay() {
    Frame* frame = sender.replay();
    if (frame == nullptr) return;
    now().on_way.push_back({sender.replay_number(), messages_of(*frame)});
    sender.replayed();
  }
  void deliver(Connection& connection) {
    if (connection.on_way.empty()) return;
    const Sent sent = connection.on_way.front();
    connection.on_way.pop_front();
    if (receiver.take(sent.number)) taken.insert(taken.end(), sent.messages.begin(), sent.messages.end());
    if (!connection.is_cut) connection.acks.push_back(receiver.taken());
  }
  void acknowledge(Connection& connection) {
    if (connection.acks.empty()) return;
    sender.acknowledge(connection.acks.front());
    connection.acks.pop_front();
  }
  void give_up() {
    const auto lost = given_up(sender);
    unknown.insert(unknown.end(), lost.begin(), lost.end());
  }
  void step() {
    Connection& any = connections[pick(connections.size())];
    switch (pick(12)) {
      case 0: return connect();
      case 1:
      case 2:
      case 3:
      case 4: return push();
      case 5:
      case 6: return replay();
      case 7:
      case 8:
      case 9: return deliver(any);
      default: return acknowledge(any);
    }
  }
  void settle() {
    for (auto& connection : connections) {
      while (!connection.on_way.empty()) deliver(connection);
    }
    connect();
    while (sender.replay() != nullptr) replay();
    while (!now().on_way.empty()) deliver(now());
    sender.acknowledge(receiver.taken());
  }

  std::mt19937_64 random;
  LinkStream sender{64 * 100, {}};
  LinkStream receiver{64 * 100, {}};
  std::vector<Connection> connections;
  std::uint64_t pushed = 0;
  Messages taken;
  Messages unknown;
};

}  // namespace

TEST_CASE("link_stream: cuts at random moments lose nothing, double nothing and keep the order") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    World world(seed);
    world.connect();
    for (int step = 0; step < 400; ++step) world.step();
    world.settle();
    Messages all(world.pushed);
    for (std::uint64_t i = 0; i < world.pushed; ++i) all[i] = i + 1;
    REQUIRE(world.pushed > 5);
    CHECK(world.taken == all);
    CHECK(world.sender.kept() == 0);
  }
}

TEST_CASE("link_stream: a sender that gives up at random moments has told of every message that is not taken, once") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    World world(seed);
    world.connect();
    for (int step = 0; step < 400; ++step) {
      if (world.pick(40) == 0) {
        world.connect();
        world.give_up();
      }
      world.step();
    }
    world.settle();
    CHECK(std::is_sorted(world.taken.begin(), world.taken.end()));
    CHECK(std::adjacent_find(world.taken.begin(), world.taken.end()) == world.taken.end());
    CHECK(std::adjacent_find(world.unknown.begin(), world.unknown.end()) == world.unknown.end());
    Messages told = world.taken;
    told.insert(told.end(), world.unknown.begin(), world.unknown.end());
    std::sort(told.begin(), told.end());
    told.erase(std::unique(told.begin(), told.end()), told.end());
    CHECK(told.size() == world.pushed);
  }
}
