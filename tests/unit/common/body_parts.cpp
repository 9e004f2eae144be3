#include "meshbus/body_parts.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "common/wire/actor_body.h"

using namespace meshbus;

namespace {

std::string text_of(const BodyParts& parts) {
  std::string storage;
  return std::string(parts.whole(storage));
}

}  // namespace

TEST_CASE("body_parts: what they are made of, in one piece") {
  const std::string text = "a text";
  const std::string_view array[] = {"one ", "", "two"};
  const std::vector<std::string_view> list(array, array + 3);
  CHECK(text_of({}).empty());
  CHECK(text_of("literal") == "literal");
  CHECK(text_of(text) == "a text");
  CHECK(text_of({"a text", 3}) == "a t");
  CHECK(text_of(array) == "one two");
  CHECK(text_of(list) == "one two");
  CHECK(text_of(SharedBody::of("shared")) == "shared");
  CHECK(text_of(std::vector<std::string_view>()).empty());
  CHECK(BodyParts(array).size() == 7);
}

TEST_CASE("body_parts: one piece is not copied") {
  const std::string text = "a text";
  std::string storage;
  CHECK(BodyParts(text).whole(storage).data() == text.data());
  CHECK(storage.empty());
  const std::string_view array[] = {text};
  CHECK(BodyParts(array).whole(storage).data() == text.data());
}

TEST_CASE("body_parts: a body that is held is a share, or a copy where it has to be") {
  const auto plain = SharedBody::of("plain");
  const auto sealed = SharedBody::copy("sealed");
  REQUIRE(sealed.descriptor() >= 0);
  CHECK(BodyParts(plain).hold(false).bytes().data() == plain.bytes().data());
  CHECK(BodyParts(plain).hold(true).descriptor() >= 0);
  CHECK(BodyParts(plain).hold(true).bytes() == "plain");
  CHECK(BodyParts(sealed).hold(true).bytes().data() == sealed.bytes().data());
  CHECK(BodyParts(sealed).hold(false).bytes().data() == sealed.bytes().data());
  std::string text = "one two";
  const std::string_view array[] = {std::string_view(text).substr(0, 4),
                                    std::string_view(text).substr(4)};
  for (const bool is_sealed : {false, true}) {
    const auto held = BodyParts(array).hold(is_sealed);
    CHECK((held.descriptor() >= 0) == is_sealed);
    text = "overwritten";
    CHECK(held.bytes() == "one two");
    text = "one two";
  }
}

TEST_CASE("body_parts: a large body that came is kept by a share, a small one by a copy") {
  const auto large = std::make_shared<const std::string>(100'000, 'x');
  const std::shared_ptr<const void> owner = large;
  CHECK(SharedBody::keep(*large, &owner).bytes().data() == large->data());
  CHECK(SharedBody::keep(*large, nullptr).bytes().data() != large->data());
  const auto small = SharedBody::keep(std::string_view(*large).substr(0, 10), &owner);
  CHECK(small.bytes() == "xxxxxxxxxx");
  CHECK(small.bytes().data() != large->data());
}

TEST_CASE("body_parts: a message to an actor is its header and the pieces") {
  const std::string_view pieces[] = {"a", "bc", "d"};
  for (const BodyParts& body : {BodyParts("abcd"), BodyParts(pieces)}) {
    const ActorBodyParts parts("add", 7, body);
    const auto text = text_of(parts);
    CHECK(text == encode_actor_body("add", 7, "abcd"));
    const auto decoded = decode_actor_body(text);
    REQUIRE(decoded.has_value());
    CHECK(decoded->from == 7);
    CHECK(decoded->bytes == "abcd");
  }
  CHECK(text_of(ActorBodyParts("add", 0, std::vector<std::string_view>())).size() == 16);
}
