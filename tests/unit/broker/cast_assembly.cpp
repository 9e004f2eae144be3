#include "broker/casts/cast_assembly.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "wire/frame_generated.h"

using namespace meshbus;
using namespace std::chrono_literals;

namespace {

const CastAssembly::Time kStart{100s};
using Texts = std::vector<std::string>;

wire::Envelope from(std::uint64_t proc) {
  wire::Envelope envelope;
  envelope.mutate_source_host(5);
  envelope.mutate_source_proc(proc);
  return envelope;
}
MessagePart bytes(const std::string& text) {
  return MessagePart(text);
}
CastAssembly::Message cast(std::uint64_t proc, std::uint64_t number, const std::string& body) {
  CastAssembly::Message message;
  message.envelope = from(proc);
  message.number = number;
  message.digest = digest_of(body);
  return message;
}
CastAssembly::Message plain(std::uint64_t proc, const std::string& body) {
  CastAssembly::Message message;
  message.envelope = from(proc);
  message.body = bytes(body);
  return message;
}
Texts texts(const std::vector<CastAssembly::Message>& messages) {
  Texts texts;
  for (const auto& message : messages)
    texts.push_back(std::to_string(message.envelope.source_proc()) + " " +
                    (message.is_late ? "late" : std::string(message.body.view())));
  return texts;
}

}  // namespace

TEST_CASE(
    "cast_assembly: a cast waits for its body, and what its sender sent behind it waits for both") {
  CastAssembly assembly({.bytes = 100000, .count = 100, .wait = 5s});
  CHECK(assembly.empty());
  CHECK_FALSE(assembly.is_held(from(1)));
  REQUIRE(assembly.add(cast(1, 10, "a"), kStart));
  CHECK(assembly.is_held(from(1)));
  CHECK_FALSE(assembly.is_held(from(2)));
  REQUIRE(assembly.add(plain(1, "b"), kStart));
  REQUIRE(assembly.add(cast(1, 11, "c"), kStart));
  REQUIRE(assembly.add(plain(1, "d"), kStart));
  REQUIRE(assembly.add(cast(2, 12, "e"), kStart));
  CHECK(assembly.take_ready().empty());
  assembly.add_body(11, bytes("c"), kStart);
  CHECK(assembly.take_ready().empty());
  CHECK(assembly.count() == 5);
  assembly.add_body(10, bytes("a"), kStart);
  CHECK(texts(assembly.take_ready()) == Texts{"1 a", "1 b", "1 c", "1 d"});
  CHECK_FALSE(assembly.is_held(from(1)));
  assembly.add_body(12, bytes("e"), kStart);
  CHECK(texts(assembly.take_ready()) == Texts{"2 e"});
  CHECK(assembly.empty());
  CHECK(assembly.count() == 0);
  CHECK(assembly.bytes() == 0);
}

TEST_CASE(
    "cast_assembly: a body that is faster waits for its cast, and one that comes again is "
    "dropped") {
  CastAssembly assembly({.bytes = 100000, .count = 100, .wait = 5s});
  assembly.add_body(10, bytes("a"), kStart);
  CHECK(assembly.take_ready().empty());
  CHECK(assembly.count() == 0);
  REQUIRE(assembly.add(cast(1, 10, "a"), kStart));
  CHECK(texts(assembly.take_ready()) == Texts{"1 a"});
  assembly.add_body(10, bytes("a"), kStart);
  CHECK(assembly.empty());
}

TEST_CASE(
    "cast_assembly: a body that is not what the sender sent is dropped, and the right one still "
    "taken") {
  CastAssembly assembly({.bytes = 100000, .count = 100, .wait = 5s});
  assembly.add_body(10, bytes("early and false"), kStart);
  REQUIRE(assembly.add(cast(1, 10, "a"), kStart));
  CHECK(assembly.take_ready().empty());
  assembly.add_body(10, bytes("late and false"), kStart);
  CHECK(assembly.take_ready().empty());
  assembly.add_body(10, bytes("a"), kStart);
  CHECK(texts(assembly.take_ready()) == Texts{"1 a"});
  CHECK(assembly.bytes() == 0);
}

TEST_CASE("cast_assembly: a body that does not come frees what waits behind it") {
  CastAssembly assembly({.bytes = 100000, .count = 100, .wait = 5s});
  REQUIRE(assembly.add(cast(1, 10, "a"), kStart));
  REQUIRE(assembly.add(plain(1, "b"), kStart + 1s));
  REQUIRE(assembly.add(cast(1, 11, "c"), kStart + 2s));
  assembly.add_body(99, bytes("nobody's"), kStart);
  CHECK(assembly.expire(kStart + 4s).empty());
  CHECK(texts(assembly.expire(kStart + 5s)) == Texts{"1 late", "1 b"});
  CHECK(assembly.count() == 1);
  CHECK(texts(assembly.expire(kStart + 7s)) == Texts{"1 late"});
  CHECK(assembly.empty());
  CHECK(assembly.bytes() == 0);
}

TEST_CASE("cast_assembly: what waits is bounded, but the body that it waits for is always taken") {
  CastAssembly assembly({.bytes = 400, .count = 3, .wait = 5s});
  REQUIRE(assembly.add(cast(1, 10, std::string(1000, 'a')), kStart));
  CHECK_FALSE(assembly.add(plain(1, std::string(300, 'b')), kStart));
  REQUIRE(assembly.add(plain(1, "c"), kStart));
  REQUIRE(assembly.add(plain(1, "d"), kStart));
  CHECK_FALSE(assembly.add(plain(1, "e"), kStart));
  // Too early, or for one behind another one.
  CastAssembly full({.bytes = 400, .count = 3, .wait = 5s});
  REQUIRE(full.add(cast(1, 10, "a"), kStart));
  REQUIRE(full.add(cast(1, 11, "b"), kStart));
  for (const std::uint64_t number : {11U, 20U})
    full.add_body(number, bytes(std::string(1000, 'x')), kStart);
  CHECK(full.bytes() < 400);
  assembly.add_body(10, bytes(std::string(1000, 'a')), kStart);
  CHECK(assembly.take_ready().size() == 3);
  CHECK(assembly.empty());
}
