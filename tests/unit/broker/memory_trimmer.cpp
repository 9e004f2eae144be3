#include "broker/memory_trimmer.h"

#include <doctest/doctest.h>
#include <malloc.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

using namespace meshbus;

namespace {

std::size_t resident() {
  std::ifstream file("/proc/self/statm");
  std::size_t size = 0, pages = 0;
  file >> size >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("memory_trimmer: what lies free between what is used goes back to the system") {
  // A sanitizer has an allocator of its own.
  if (::mallinfo2().uordblks == 0) return;
  constexpr std::size_t kBlock = 8192, kCount = 4096;
  std::vector<std::unique_ptr<char[]>> blocks(kCount);
  for (auto& block : blocks) {
    block = std::make_unique<char[]>(kBlock);
    std::memset(block.get(), 'x', kBlock);
  }
  // One in sixteen stays, the last one among them.
  for (std::size_t i = 0; i < kCount; ++i) {
    if (i % 16 != 15) blocks[i].reset();
  }
  const std::size_t before = resident();
  trim_memory();
  CHECK(resident() + kBlock * kCount * 3 / 4 < before);
  for (std::size_t i = 15; i < kCount; i += 16) CHECK(blocks[i][kBlock - 1] == 'x');
}
