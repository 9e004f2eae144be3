#include "common/address/actor_words.h"

#include <doctest/doctest.h>

using namespace meshbus;

namespace {

const Name kTally = Name::plain("tally").value();

Error no_port(const std::string& detail) {
  return {ErrorCode::no_such_port, detail};
}

}  // namespace

TEST_CASE("actor_words: an actor that is not there has the name by which it was called") {
  const auto said = no_port("tcp:h1:7420,train_0" + no_actor_words(actor_port(kTally)));
  CHECK(in_names(said, kTally, 0, "add").detail() == "tcp:h1:7420,train_0 has no actor tally");
  const auto child = no_port("train_0" + no_actor_words(actor_port(kTally, 3)) + "; and more");
  CHECK(in_names(child, kTally, 3, 7).detail() == "train_0 has no actor tally[3]; and more");
  // Another one's port is no name of ours.
  CHECK(in_names(child, kTally, 2, 7).detail() == child.detail());
}

TEST_CASE("actor_words: a message without a handler has the name by which it was sent") {
  const MessageType type("add up");
  const auto hash = MessageType::from_key(type.key()).to_string();
  const auto said = no_port("actor tally[0] has no handler for message " + hash + "; it has get");
  CHECK(in_names(said, kTally, 0, type).detail() ==
        "actor tally[0] has no handler for message add up; it has get");
  CHECK(in_names(said, kTally, 0, "other").detail() == said.detail());
  const auto longer = no_port("no handler for message 123");
  CHECK(in_names(longer, kTally, 0, 12).detail() == "no handler for message 123");
}

TEST_CASE("actor_words: other errors stay as they are") {
  const Error other(ErrorCode::call_error, "train_0" + no_actor_words(actor_port(kTally)));
  CHECK(in_names(other, kTally, 0, "add").detail() == other.detail());
}
