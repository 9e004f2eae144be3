#include "broker/casts/cast_arrivals.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "wire/frame_generated.h"

using namespace meshbus;
using namespace std::chrono_literals;

namespace {

const CastArrivals::Time kArrival{100s};
using Texts = std::vector<std::string>;

wire::Envelope from(std::uint64_t proc) {
  wire::Envelope envelope;
  envelope.mutate_source_host(5);
  envelope.mutate_source_proc(proc);
  return envelope;
}
zmq::message_t bytes(const std::string& text) {
  return zmq::message_t(text.data(), text.size());
}
CastArrivals::Message cast(std::uint64_t proc, std::uint64_t number, const std::string& body) {
  CastArrivals::Message message;
  message.envelope = from(proc);
  message.number = number;
  message.digest = digest_of(body);
  return message;
}
CastArrivals::Message plain(std::uint64_t proc, const std::string& body) {
  CastArrivals::Message message;
  message.envelope = from(proc);
  message.body = bytes(body);
  return message;
}
Texts texts(const std::vector<CastArrivals::Message>& messages) {
  Texts texts;
  for (const auto& message : messages)
    texts.push_back(std::to_string(message.envelope.source_proc()) + " " + (message.is_late ? "late" : message.body.to_string()));
  return texts;
}

}  // namespace

TEST_CASE("cast_arrivals: a cast waits for its body, and what its sender sent behind it waits for both") {
  CastArrivals arrivals({.bytes = 100000, .count = 100, .wait = 5s});
  CHECK(arrivals.empty());
  CHECK_FALSE(arrivals.is_held(from(1)));
  REQUIRE(arrivals.add(cast(1, 10, "a"), kArrival));
  CHECK(arrivals.is_held(from(1)));
  CHECK_FALSE(arrivals.is_held(from(2)));
  REQUIRE(arrivals.add(plain(1, "b"), kArrival));
  REQUIRE(arrivals.add(cast(1, 11, "c"), kArrival));
  REQUIRE(arrivals.add(plain(1, "d"), kArrival));
  REQUIRE(arrivals.add(cast(2, 12, "e"), kArrival));
  CHECK(arrivals.take_ready().empty());
  arrivals.add_body(11, bytes("c"), kArrival);
  CHECK(arrivals.take_ready().empty());
  CHECK(arrivals.count() == 5);
  arrivals.add_body(10, bytes("a"), kArrival);
  CHECK(texts(arrivals.take_ready()) == Texts{"1 a", "1 b", "1 c", "1 d"});
  CHECK_FALSE(arrivals.is_held(from(1)));
  arrivals.add_body(12, bytes("e"), kArrival);
  CHECK(texts(arrivals.take_ready()) == Texts{"2 e"});
  CHECK(arrivals.empty());
  CHECK(arrivals.count() == 0);
  CHECK(arrivals.bytes() == 0);
}

TEST_CASE("cast_arrivals: a body that is faster waits for its cast, and one that comes again is dropped") {
  CastArrivals arrivals({.bytes = 100000, .count = 100, .wait = 5s});
  arrivals.add_body(10, bytes("a"), kArrival);
  CHECK(arrivals.take_ready().empty());
  CHECK(arrivals.count() == 0);
  REQUIRE(arrivals.add(cast(1, 10, "a"), kArrival));
  CHECK(texts(arrivals.take_ready()) == Texts{"1 a"});
  arrivals.add_body(10, bytes("a"), kArrival);
  CHECK(arrivals.empty());
}

TEST_CASE("cast_arrivals: a body that is not what the sender sent is dropped, and the right one still taken") {
  CastArrivals arrivals({.bytes = 100000, .count = 100, .wait = 5s});
  arrivals.add_body(10, bytes("early and false"), kArrival);
  REQUIRE(arrivals.add(cast(1, 10, "a"), kArrival));
  CHECK(arrivals.take_ready().empty());
  arrivals.add_body(10, bytes("late and false"), kArrival);
  CHECK(arrivals.take_ready().empty());
  arrivals.add_body(10, bytes("a"), kArrival);
  CHECK(texts(arrivals.take_ready()) == Texts{"1 a"});
  CHECK(arrivals.bytes() == 0);
}

TEST_CASE("cast_arrivals: a body that does not come frees what waits behind it") {
  CastArrivals arrivals({.bytes = 100000, .count = 100, .wait = 5s});
  REQUIRE(arrivals.add(cast(1, 10, "a"), kArrival));
  REQUIRE(arrivals.add(plain(1, "b"), kArrival + 1s));
  REQUIRE(arrivals.add(cast(1, 11, "c"), kArrival + 2s));
  arrivals.add_body(99, bytes("nobody's"), kArrival);
  CHECK(arrivals.expire(kArrival + 4s).empty());
  CHECK(texts(arrivals.expire(kArrival + 5s)) == Texts{"1 late", "1 b"});
  CHECK(arrivals.count() == 1);
  CHECK(texts(arrivals.expire(kArrival + 7s)) == Texts{"1 late"});
  CHECK(arrivals.empty());
  CHECK(arrivals.bytes() == 0);
}

TEST_CASE("cast_arrivals: what waits is bounded, but the body that it waits for is always taken") {
  CastArrivals arrivals({.bytes = 400, .count = 3, .wait = 5s});
  REQUIRE(arrivals.add(cast(1, 10, std::string(1000, 'a')), kArrival));
  CHECK_FALSE(arrivals.add(plain(1, std::string(300, 'b')), kArrival));
  REQUIRE(arrivals.add(plain(1, "c"), kArrival));
  REQUIRE(arrivals.add(plain(1, "d"), kArrival));
  CHECK_FALSE(arrivals.add(plain(1, "e"), kArrival));
  // Too early, or for one behind another one.
  CastArrivals full({.bytes = 400, .count = 3, .wait = 5s});
  REQUIRE(full.add(cast(1, 10, "a"), kArrival));
  REQUIRE(full.add(cast(1, 11, "b"), kArrival));
  for (const std::uint64_t number : {11U, 20U}) full.add_body(number, bytes(std::string(1000, 'x')), kArrival);
  CHECK(full.bytes() < 400);
  arrivals.add_body(10, bytes(std::string(1000, 'a')), kArrival);
  CHECK(arrivals.take_ready().size() == 3);
  CHECK(arrivals.empty());
}
