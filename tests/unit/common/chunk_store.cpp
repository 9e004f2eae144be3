#include "common/bus/chunk_store.h"

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>

using namespace std::chrono_literals;
using namespace meshbus;

namespace {

constexpr ChunkStore::Sender kSender{7, 1, 100};
constexpr ChunkStore::Sender kOther{8, 1, 100};
constexpr ChunkStore::Sender kThird{9, 1, 100};
constexpr ChunkStore::Time kChunksBegin{10s};

wire::ChunkHeader chunk(std::uint64_t transfer, std::uint64_t total, std::uint64_t offset) {
  return {transfer, total, offset};
}

ErrorCode code_of(const auto& result) {
  return result ? ErrorCode::none : result.error().code();
}

}  // namespace

TEST_CASE("chunk_store: a body is whole when its chunks came in order, and is taken once") {
  ChunkStore store(100);
  CHECK(store.add(kSender, chunk(1, 6, 0), "abc", kChunksBegin).has_value());
  CHECK(store.add(kOther, chunk(1, 3, 0), "xyz", kChunksBegin).has_value());
  CHECK(code_of(store.take(kSender, chunk(1, 6, 0))) == ErrorCode::not_exist);  // and is forgotten
  CHECK(store.add(kSender, chunk(2, 6, 0), "abc", kChunksBegin).has_value());
  CHECK(store.add(kSender, chunk(2, 6, 3), "def", kChunksBegin).has_value());
  CHECK(store.take(kSender, chunk(2, 6, 0)).value().body.bytes() == "abcdef");
  CHECK(code_of(store.take(kSender, chunk(2, 6, 0))) == ErrorCode::not_exist);
  CHECK(store.take(kOther, chunk(1, 3, 0)).value().body.bytes() == "xyz");
  CHECK(store.count() == 0);
  CHECK(store.bytes() == 0);
}

TEST_CASE("chunk_store: what a former incarnation of a sender began makes room for its next one") {
  ChunkStore store(100);
  REQUIRE(store.reserve(kSender, 1, 100, kChunksBegin).has_value());
  REQUIRE(store.reserve(kOther, 1, 100, kChunksBegin).has_value());
  CHECK(code_of(store.reserve(kThird, 1, 1, kChunksBegin)) == ErrorCode::queue_full);
  constexpr ChunkStore::Sender again{7, 1, 101};
  CHECK(store.reserve(again, 1, 100, kChunksBegin).has_value());
  CHECK(store.count() == 2);
  CHECK(store.bytes() == 200);
}

TEST_CASE("chunk_store: what does not continue its body is refused, and the body with it") {
  ChunkStore store(100);
  const auto refused = [&](const wire::ChunkHeader& header, Bytes bytes) {
    REQUIRE(store.add(kSender, chunk(1, 6, 0), "abc", kChunksBegin).has_value());
    CHECK(code_of(store.add(kSender, header, bytes, kChunksBegin)) == ErrorCode::malformed_message);
    CHECK(store.count() == 0);
    CHECK(store.bytes() == 0);
  };
  refused(chunk(1, 6, 4), "de");
  refused(chunk(1, 6, 0), "abc");
  refused(chunk(1, 7, 3), "def");
  refused(chunk(1, 6, 3), "defg");
  refused(chunk(1, 6, 3), "");
  CHECK(code_of(store.add(kSender, chunk(9, 6, 3), "def", kChunksBegin)) ==
        ErrorCode::malformed_message);
  CHECK(code_of(store.add(kSender, chunk(9, 6, 0), "", kChunksBegin)) ==
        ErrorCode::malformed_message);
  CHECK(store.bytes() == 0);
}

TEST_CASE("chunk_store: what senders announce is bounded, until what was taken is let go") {
  ChunkStore store(100);
  const auto larger = store.add(kSender, chunk(1, 101, 0), "a", kChunksBegin);
  REQUIRE_FALSE(larger.has_value());
  CHECK(larger.error().code() == ErrorCode::too_large);
  CHECK(larger.error().detail() ==
        "a body of 101 bytes; the receiver takes at most 100 (setting message.limit)");
  CHECK(store.add(kSender, chunk(1, 100, 0), "a", kChunksBegin).has_value());
  // One sender alone may have `limit` bytes.
  CHECK(code_of(store.add(kSender, chunk(2, 1, 0), "b", kChunksBegin)) == ErrorCode::queue_full);
  CHECK(store.add(kOther, chunk(2, 90, 0), std::string(90, 'b'), kChunksBegin).has_value());
  CHECK(code_of(store.add(kThird, chunk(1, 11, 0), "c", kChunksBegin)) == ErrorCode::queue_full);
  std::optional taken = store.take(kOther, chunk(2, 90, 0)).value();
  CHECK(code_of(store.add(kThird, chunk(1, 11, 0), "c", kChunksBegin)) == ErrorCode::queue_full);
  taken.reset();
  CHECK(store.add(kThird, chunk(1, 11, 0), "c", kChunksBegin).has_value());
  CHECK(store.bytes() == 111);
  CHECK(store.add(kSender, chunk(1, 0, 0), "", kChunksBegin).has_value());  // forgotten
  CHECK(store.bytes() == 11);
}

TEST_CASE("chunk_store: one sender has a bounded number of bodies here, and none for ever") {
  ChunkStore store(1000);
  for (std::uint64_t transfer = 0; transfer < ChunkStore::kMostOfOne; ++transfer)
    REQUIRE(store.add(kSender, chunk(transfer, 2, 0), "a", kChunksBegin).has_value());
  CHECK(code_of(store.add(kSender, chunk(1000, 2, 0), "a", kChunksBegin)) == ErrorCode::queue_full);
  CHECK(store.add(kOther, chunk(0, 2, 0), "a", kChunksBegin + 30s).has_value());
  store.expire(kChunksBegin + ChunkStore::kIdle - 1s);
  CHECK(store.count() == ChunkStore::kMostOfOne + 1);
  store.expire(kChunksBegin + ChunkStore::kIdle);
  CHECK(store.count() == 1);
}

TEST_CASE("chunk_store: room is reserved for a body that comes as shared memory, or in chunks") {
  ChunkStore store(100);
  const auto memory = std::make_shared<const std::string>("abcdef");
  CHECK(code_of(store.check_reserved(kSender, 1, 6)) == ErrorCode::malformed_message);
  REQUIRE(store.reserve(kSender, 1, 6, kChunksBegin).has_value());
  CHECK(store.bytes() == 6);
  CHECK(code_of(store.reserve(kSender, 1, 6, kChunksBegin)) == ErrorCode::malformed_message);
  CHECK(code_of(store.reserve(kSender, 2, 0, kChunksBegin)) == ErrorCode::malformed_message);
  CHECK(code_of(store.reserve(kSender, 2, 101, kChunksBegin)) == ErrorCode::too_large);
  CHECK(code_of(store.reserve(kSender, 2, 95, kChunksBegin)) == ErrorCode::queue_full);
  CHECK(code_of(store.check_reserved(kSender, 1, 5)) == ErrorCode::malformed_message);
  REQUIRE(store.check_reserved(kSender, 1, 6).has_value());
  store.put(kSender, 1, std::shared_ptr<const void>(memory, memory->data()), kChunksBegin);
  CHECK(code_of(store.check_reserved(kSender, 1, 6)) == ErrorCode::malformed_message);
  CHECK(memory.use_count() == 2);
  {
    const auto taken = store.take(kSender, chunk(1, 6, 0)).value();
    CHECK(taken.body.bytes() == "abcdef");
    CHECK(taken.text == nullptr);
    CHECK(store.bytes() == 6);
  }
  CHECK(store.bytes() == 0);
  CHECK(memory.use_count() == 1);
  // It did not come: chunks go into the same room.
  REQUIRE(store.reserve(kSender, 3, 3, kChunksBegin).has_value());
  CHECK(code_of(store.take(kSender, chunk(3, 3, 0))) == ErrorCode::not_exist);
  REQUIRE(store.reserve(kSender, 4, 3, kChunksBegin).has_value());
  CHECK(store.add(kSender, chunk(4, 3, 0), "xyz", kChunksBegin).has_value());
  CHECK(store.bytes() == 3);
  CHECK(store.take(kSender, chunk(4, 3, 0)).value().body.bytes() == "xyz");
  // Nothing is added to what is mapped.
  REQUIRE(store.reserve(kSender, 5, 6, kChunksBegin).has_value());
  store.put(kSender, 5, std::shared_ptr<const void>(memory, memory->data()), kChunksBegin);
  CHECK(code_of(store.add(kSender, chunk(5, 6, 0), "abc", kChunksBegin)) ==
        ErrorCode::malformed_message);
  CHECK(memory.use_count() == 1);
  CHECK(store.bytes() == 0);
}
