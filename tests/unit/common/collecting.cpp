#include "common/wire/collecting.h"

#include <doctest/doctest.h>

#include <string>

#include "common/wire/actor_body.h"
#include "wire/replies_generated.h"

using namespace meshbus;
using namespace std::chrono_literals;

namespace {

CollectOrder order() {
  return {.ticket = 77,
          .mesh = "trainers-13Se1Maqzryj",
          .reducer = "sum",
          .ranks = {{0, 4}, {6, 8}},
          .asker = "unix:/run/a,client",
          .limit = 1500ms,
          .has_parts = true};
}

Collected collected() {
  return {
      .reduced = Partial{ReplyValue(std::int64_t{42}), Overlay<bool>::of({{0, 3, true}}), false},
      .problems = {{Error(ErrorCode::call_error, "boom"), {{3, 4}}},
                   {Error(ErrorCode::fate_unknown, ""), {{5, 6}}}},
      .parts = 2};
}

/// Every beginning of it, and every byte of it changed, is read or refused in words.
template <typename Decode>
void spoil(const std::string& bytes, Decode decode) {
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    if (const auto read = decode(Bytes(bytes).substr(0, size)); !read)
      CHECK_FALSE(read.error().detail().empty());
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const char with : {'\0', '\x01', '\x7f', '\xff'}) {
      auto changed = bytes;
      changed[at] = with;
      if (const auto read = decode(Bytes(changed)); !read)
        CHECK_FALSE(read.error().detail().empty());
    }
  }
}

}  // namespace

TEST_CASE("collecting: an order and what is collected come out as they went in") {
  const auto read = decode_collect_order(encode(order())).value();
  CHECK(read.ticket == 77);
  CHECK(read.mesh == order().mesh);
  CHECK(read.reducer == "sum");
  CHECK(read.ranks == order().ranks);
  CHECK(read.asker == order().asker);
  CHECK(read.limit == 1500ms);
  CHECK(read.has_parts);
  const auto told = decode_collected(encode(collected())).value();
  CHECK(to_text(told.reduced->value) == "42");
  CHECK(told.reduced->ranks == collected().reduced->ranks);
  REQUIRE(told.problems.size() == 2);
  CHECK(told.problems[0].error.to_string() == "call_error: boom");
  CHECK(told.problems[0].ranks == std::vector<RankBlock>{{3, 4}});
  CHECK(told.parts == 2);
}

TEST_CASE("collecting: a question and its answer carry the ticket") {
  const auto bytes = encode_collected_call(9, 250ms, encode_actor_body("add", 0, "2"));
  const auto outer = decode_actor_body(bytes).value();
  CHECK(outer.message == kCollectMessage);
  const auto call = decode_collected_call(outer.bytes).value();
  CHECK(call.ticket == 9);
  CHECK(call.limit_ms == 250);
  CHECK(decode_actor_body(call.actor_body).value().bytes == "2");
  CHECK(decode_actor_body(call.actor_body).value().message == MessageType("add").key());
  const auto fine = encode_collected_answer(9, std::string("42"));
  CHECK(decode_collected_answer(fine).value().answer.value() == "42");
  const auto failed =
      encode_collected_answer(9, fail(ErrorCode::call_error, std::string(5000, 'x')));
  const auto reply = decode_collected_answer(failed).value();
  CHECK(reply.ticket == 9);
  CHECK(reply.answer.error().code() == ErrorCode::call_error);
  CHECK(reply.answer.error().detail().size() <= kCollectedTextLimit);
  const auto large = encode_collected_answer(9, std::string(kCollectedAnswerLimit + 1, 'x'));
  CHECK(decode_collected_answer(large).value().answer.error().code() == ErrorCode::too_large);
  // An answer that exceeds the limit is refused at the other end.
  const auto forged =
      with_header(wire::CollectedAnswer(9, 0, 0, 0), std::string(kCollectedAnswerLimit + 1, 'x'));
  CHECK(decode_collected_answer(forged).value().answer.error().code() == ErrorCode::too_large);
}

TEST_CASE("collecting: bytes of strangers are refused in words") {
  spoil(encode(order()), decode_collect_order);
  spoil(encode(collected()), decode_collected);
  spoil(encode_collected_answer(1, std::string("4")), decode_collected_answer);
  CHECK(decode_collect_order("").error().code() == ErrorCode::malformed_message);
  auto none = order();
  none.ranks.clear();
  CHECK(decode_collect_order(encode(none)).error().code() == ErrorCode::malformed_message);
  auto overlapping = order();
  overlapping.ranks = {{0, 4}, {3, 5}};
  CHECK(decode_collect_order(encode(overlapping)).error().code() == ErrorCode::malformed_message);
  auto many = order();
  many.ranks = {{0, UINT64_MAX}};
  CHECK(decode_collect_order(encode(many)).error().code() == ErrorCode::too_large);
  many.ranks = {{0, kMostCollectedRanks}, {kMostCollectedRanks, kMostCollectedRanks + 1}};
  CHECK(decode_collect_order(encode(many)).error().code() == ErrorCode::too_large);
  // One text that many tables share must not be copied many times.
  flatbuffers::FlatBufferBuilder builder;
  const auto text = builder.CreateString(std::string(10'000, 'x'));
  const std::vector<flatbuffers::Offset<wire::CollectProblem>> same(
      1000, wire::CreateCollectProblem(builder, 10, text));
  builder.Finish(wire::CreateCollected(builder, 0, builder.CreateVector(same)));
  CHECK(decode_collected(bytes_of(builder.GetBufferPointer(), builder.GetSize())).error().code() ==
        ErrorCode::malformed_message);
}
