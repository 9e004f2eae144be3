#include "common/base/pack_buffer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

using namespace meshbus;

namespace {

void append(PackBuffer& buffer, const std::string& bytes) {
  std::memcpy(buffer.extend(bytes.size()), bytes.data(), bytes.size());
}

}  // namespace

TEST_CASE("pack_buffer: bytes stay the same whatever they grow to and however they leave") {
  for (const std::size_t size :
       {1UL, 255UL, 256UL, 257UL, 4096UL, 4097UL, 16384UL, 16385UL, 100000UL, PackBuffer::kBlock,
        PackBuffer::kBlock + 1, 3 * PackBuffer::kBlock}) {
    CAPTURE(size);
    PackBuffer buffer;
    std::string expected;
    while (expected.size() < size) {
      const std::string piece(
          std::min<std::size_t>(size - expected.size(), 1 + expected.size() % 1000),
          static_cast<char>('a' + expected.size() % 26));
      append(buffer, piece);
      expected += piece;
    }
    CHECK(buffer.size() == size);
    PackBuffer moved = std::move(buffer);
    const MessagePart part = moved.release();
    CHECK(moved.empty());
    CHECK((part.view() == expected));
    append(moved, "again");
    CHECK(moved.release().view() == "again");
  }
}

TEST_CASE("pack_buffer: a block is nobody's until the last one who has it lets go, on any thread") {
  const std::string bytes(100000, 'x');
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const std::string own(100000, static_cast<char>('0' + i));
      for (int round = 0; round < 200; ++round) {
        PackBuffer buffer;
        append(buffer, own);
        MessagePart part = buffer.release(), copy;
        copy.share(part);
        part = {};
        PackBuffer other;
        append(other, bytes);
        if (copy.view() != own) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
}
