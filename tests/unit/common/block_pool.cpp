#include "common/base/block_pool.h"

#include <doctest/doctest.h>

#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/wire/frame.h"

using namespace meshbus;

TEST_CASE(
    "block_pool: a block is of the least size that holds it, and wastes hardly more than half") {
  CHECK(BlockPool::size_for(PackBuffer::kBlock) == PackBuffer::kBlock);
  for (std::size_t bytes = kInlineLimit + 1; bytes <= kPartLimit; bytes += 1021) {
    const std::size_t size = BlockPool::size_for(bytes);
    CHECK(size >= bytes);
    CHECK(size <= 2 * bytes + 32 * 1024);
    CHECK(BlockPool::size_for(size) == size);
  }
  CHECK(BlockPool::size_for(kPartLimit) == kPartLimit);
  CHECK(BlockPool::size_for(kPartLimit + 1) == kPartLimit + 1);
}

TEST_CASE(
    "block_pool: what is given back is used again, in any order, and only while nobody has it") {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, kInlineLimit, kInlineLimit + 1,
                                  kPackLimit, kBodyLimit, 2 * kBodyLimit}) {
    CAPTURE(bytes);
    MessagePart part = BlockPool::part(bytes);
    REQUIRE(part.size() == bytes);
    std::memset(part.data(), 'a', bytes);
    MessagePart copy;
    copy.share(part);
    const void* where = part.data();
    part = {};
    MessagePart other = BlockPool::part(bytes);
    std::memset(other.data(), 'b', bytes);
    CHECK(copy.view() == std::string(bytes, 'a'));
    copy = {};
    if (bytes > kInlineLimit && bytes <= kPartLimit) CHECK(BlockPool::part(bytes).data() == where);
  }
}

TEST_CASE(
    "block_pool: a copy lies in a block, which is used again when the last share of it is gone") {
  for (const std::size_t bytes : {kInlineLimit + 1, kBodyLimit}) {
    const std::string text(bytes, 'x');
    auto copy = std::make_optional(BlockPool::copy(text));
    auto share = copy;
    const void* where = copy->bytes().data();
    CHECK(where != text.data());
    copy.reset();
    CHECK(share->bytes() == text);
    CHECK(BlockPool::part(bytes).data() != where);
    share.reset();
    CHECK(BlockPool::part(bytes).data() == where);
  }
}

TEST_CASE("block_pool: blocks that nobody has needed for a while are freed, and no others") {
  BlockPool::free_unused();
  BlockPool::free_unused();
  REQUIRE(BlockPool::kept() == 0);
  const std::size_t size = BlockPool::size_for(kBodyLimit);
  char* const one = BlockPool::take(size);
  char* const other = BlockPool::take(size);
  BlockPool::give_back(one, size);
  BlockPool::give_back(other, size);
  BlockPool::free_unused();
  CHECK(BlockPool::kept() == 2 * size);
  BlockPool::give_back(BlockPool::take(size), size);
  BlockPool::free_unused();
  CHECK(BlockPool::kept() == size);
  char* const taken = BlockPool::take(size);
  BlockPool::free_unused();
  BlockPool::give_back(taken, size);
  BlockPool::free_unused();
  CHECK(BlockPool::kept() == size);
  BlockPool::free_unused();
  CHECK(BlockPool::kept() == 0);
}

TEST_CASE("block_pool: it keeps no more than it says") {
  const std::size_t size = BlockPool::size_for(kBodyLimit);
  std::vector<char*> blocks;
  for (int i = 0; i < 32; ++i) blocks.push_back(BlockPool::take(size));
  const std::set<char*> given(blocks.begin(), blocks.end());
  CHECK(given.size() == blocks.size());
  for (char* block : blocks) BlockPool::give_back(block, size);
  // Whatever it had before, it does not have more now: the rest was freed, which a sanitizer would
  // tell if it were used again.
  std::vector<char*> again;
  std::size_t known = 0;
  for (std::size_t i = 0; i < BlockPool::kKept / size; ++i) {
    again.push_back(BlockPool::take(size));
    known += given.count(again.back());
    std::memset(again.back(), 'x', size);
  }
  CHECK(known >= BlockPool::kKept / size - 1);
  for (char* block : again) BlockPool::give_back(block, size);
  BlockPool::give_back(nullptr, size);
}
