#include "broker/memory_trimmer.h"

#include <malloc.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <utility>

#include "common/base/block_pool.h"

namespace meshbus {
namespace {

/// To have so much more than is used costs less than to give it back and take it again.
constexpr std::size_t kSpare = 1024UL * 1024;

/// Bytes of memory that are this process's own; 0 when they cannot be read.
std::size_t own_memory() {
  std::ifstream file("/proc/self/statm");
  std::size_t size = 0, resident = 0, shared = 0;
  if (!(file >> size >> resident >> shared) || resident < shared) return 0;
  return (resident - shared) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

void trim_memory() {
  BlockPool::free_unused();
  const auto heap = ::mallinfo2();
  if (own_memory() > heap.uordblks + heap.hblkhd + kSpare) ::malloc_trim(0);
}

MemoryTrimmer::MemoryTrimmer(Reactor& reactor, std::function<void()> forget_old)
    : reactor_(reactor), forget_old_(std::move(forget_old)) {
  arm();
}

void MemoryTrimmer::arm() {
  timer_ = reactor_.after(kInterval, [this] {
    forget_old_();
    trim_memory();
    arm();
  });
}

}  // namespace meshbus
