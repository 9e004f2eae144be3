#include "broker/router/waiting_room.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "wire/frame_generated.h"

using namespace meshbus;
using namespace std::chrono_literals;

namespace {

wire::Envelope to(std::uint64_t proc) {
  wire::Envelope envelope;
  envelope.mutate_destination_proc(proc);
  return envelope;
}

/// Collects what is taken out.
struct Taken {
  std::vector<std::string> bodies;
  WaitingRoom::Taker taker() {
    return [this](const wire::Envelope& envelope, Bytes body, MessagePart&) {
      bodies.push_back(std::to_string(envelope.destination_proc()) + std::string(body));
    };
  }
};

using Texts = std::vector<std::string>;
const WaitingRoom::Time kArrival{10s};

}  // namespace

TEST_CASE("waiting_room: releases what waits for a proc, in order, and nothing else") {
  WaitingRoom room({.wait = 5s, .bytes = 100000, .count = 100});
  REQUIRE(room.add(to(1), "a", nullptr, kArrival));
  REQUIRE(room.add(to(2), "b", nullptr, kArrival));
  REQUIRE(room.add(to(1), "c", nullptr, kArrival + 1s));
  Taken taken;
  room.release(1, taken.taker());
  CHECK(taken.bodies == Texts{"1a", "1c"});
  CHECK(room.count() == 1);
  room.release(1, taken.taker());
  CHECK(taken.bodies.size() == 2);
}

TEST_CASE("waiting_room: gives up each message after its time") {
  WaitingRoom room({.wait = 5s, .bytes = 100000, .count = 100});
  REQUIRE(room.add(to(1), "a", nullptr, kArrival));
  REQUIRE(room.add(to(2), "b", nullptr, kArrival + 1s));
  REQUIRE(room.add(to(1), "c", nullptr, kArrival + 2s));
  CHECK(room.next_due() == kArrival + 5s);
  Taken taken;
  room.expire(kArrival + 4999ms, taken.taker());
  CHECK(taken.bodies.empty());
  room.expire(kArrival + 6s, taken.taker());
  CHECK(taken.bodies == Texts{"1a", "2b"});
  CHECK(room.next_due() == kArrival + 7s);
  room.expire(kArrival + 7s, taken.taker());
  CHECK(taken.bodies == Texts{"1a", "2b", "1c"});
  CHECK(room.count() == 0);
  CHECK(room.bytes() == 0);
  CHECK_FALSE(room.next_due().has_value());
}

TEST_CASE("waiting_room: a message that came after a release has its own time") {
  WaitingRoom room({.wait = 5s, .bytes = 100000, .count = 100});
  REQUIRE(room.add(to(1), "a", nullptr, kArrival));
  Taken taken;
  room.release(1, taken.taker());
  REQUIRE(room.add(to(1), "b", nullptr, kArrival + 3s));
  room.expire(kArrival + 5s, taken.taker());
  CHECK(taken.bodies == Texts{"1a"});
  room.expire(kArrival + 8s, taken.taker());
  CHECK(taken.bodies == Texts{"1a", "1b"});
}

TEST_CASE("waiting_room: is bounded in count and bytes, and a wait of 0 keeps nothing") {
  WaitingRoom few({.wait = 5s, .bytes = 100000, .count = 2});
  CHECK(few.add(to(1), "a", nullptr, kArrival));
  CHECK(few.add(to(1), "b", nullptr, kArrival));
  CHECK_FALSE(few.add(to(1), "c", nullptr, kArrival));
  WaitingRoom small({.wait = 5s, .bytes = 200, .count = 100});
  CHECK(small.add(to(1), std::string(100, 'x'), nullptr, kArrival));
  CHECK_FALSE(small.add(to(1), std::string(100, 'x'), nullptr, kArrival));
  WaitingRoom none({.wait = 0s, .bytes = 100000, .count = 100});
  CHECK_FALSE(none.add(to(1), "a", nullptr, kArrival));
}

TEST_CASE("waiting_room: a body that is a message part is moved, and only when it is kept") {
  WaitingRoom room({.wait = 5s, .bytes = 100000, .count = 1});
  MessagePart first(std::string(40000, 'x')), second("y");
  CHECK(room.add(to(1), bytes_of(first.data(), first.size()), &first, kArrival));
  CHECK(first.size() == 0);
  CHECK_FALSE(room.add(to(1), bytes_of(second.data(), second.size()), &second, kArrival));
  CHECK(second.size() == 1);
  Taken taken;
  room.release(1, taken.taker());
  REQUIRE(taken.bodies.size() == 1);
  CHECK(taken.bodies[0].size() == 40001);
}
