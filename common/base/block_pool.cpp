#include "common/base/block_pool.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace meshbus {
namespace {

constexpr std::size_t kKiB = 1024;
/// A pack that is full, with one message more; twice, four times that; and the largest part there
/// is (kPartLimit).
constexpr std::array<std::size_t, 5> kSizes = {68 * kKiB, 132 * kKiB, 264 * kKiB, 528 * kKiB,
                                               1088 * kKiB};
/// Below this malloc() is as quick, and a block of the smallest size would waste more than half.
constexpr std::size_t kLeast = 32 * kKiB;

class Pool {
 public:
  /// Never destroyed: threads that give blocks back may outlive static objects.
  static Pool& one() {
    static Pool& pool = *new Pool;
    return pool;
  }
  char* take(std::size_t at) {
    const std::lock_guard lock(mutex_);
    if (blocks_[at].empty()) return nullptr;
    return pop(at);
  }
  /// False when there are enough.
  bool give_back(char* block, std::size_t at) noexcept {
    const std::lock_guard lock(mutex_);
    // Blocks of other sizes may be of no use any more.
    for (std::size_t other = kSizes.size(); other-- > 0;) {
      while (other != at && kept_ + kSizes[at] > BlockPool::kKept && !blocks_[other].empty()) {
        std::free(pop(other));
      }
    }
    if (kept_ + kSizes[at] > BlockPool::kKept) return false;
    kept_ += kSizes[at];
    blocks_[at].push_back(block);
    return true;
  }
  void free_unused() noexcept {
    const std::lock_guard lock(mutex_);
    for (std::size_t at = 0; at < kSizes.size(); ++at) {
      for (std::size_t left = unused_[at]; left > 0; --left) std::free(pop(at));
      unused_[at] = blocks_[at].size();
    }
  }
  std::size_t kept() noexcept {
    const std::lock_guard lock(mutex_);
    return kept_;
  }

 private:
  char* pop(std::size_t at) noexcept {
    char* block = blocks_[at].back();
    blocks_[at].pop_back();
    unused_[at] = std::min(unused_[at], blocks_[at].size());
    kept_ -= kSizes[at];
    return block;
  }

  Pool() {
    for (std::size_t at = 0; at < kSizes.size(); ++at)
      blocks_[at].reserve(BlockPool::kKept / kSizes[at]);
  }
  std::mutex mutex_;
  std::array<std::vector<char*>, kSizes.size()> blocks_;  // guarded by mutex_
  std::size_t kept_ = 0;                                  // guarded by mutex_
  /// The fewest blocks that have waited here since the last free_unused(). Guarded by mutex_.
  std::array<std::size_t, kSizes.size()> unused_{};
};

/// kSizes.size() when there is none.
std::size_t place_of(std::size_t size) {
  return static_cast<std::size_t>(std::ranges::find(kSizes, size) - kSizes.begin());
}

void give_part_back(void* block, void* size) {
  BlockPool::give_back(static_cast<char*>(block), reinterpret_cast<std::uintptr_t>(size));
}

}  // namespace

std::size_t BlockPool::size_for(std::size_t bytes) noexcept {
  const auto* const found = std::ranges::lower_bound(kSizes, bytes);
  return found == kSizes.end() ? bytes : *found;
}

char* BlockPool::take(std::size_t size) {
  if (const std::size_t at = place_of(size); at < kSizes.size()) {
    if (char* block = Pool::one().take(at)) return block;
  }
  if (void* memory = std::malloc(size)) return static_cast<char*>(memory);
  throw std::bad_alloc();
}

void BlockPool::give_back(char* block, std::size_t size) noexcept {
  if (block == nullptr) return;
  const std::size_t at = place_of(size);
  if (at == kSizes.size() || !Pool::one().give_back(block, at)) std::free(block);
}

void BlockPool::free_unused() noexcept {
  Pool::one().free_unused();
}

std::size_t BlockPool::kept() noexcept {
  return Pool::one().kept();
}

SharedBody BlockPool::copy(std::string_view bytes) {
  const std::size_t size = size_for(bytes.size());
  const std::shared_ptr<char> block(take(size), [size](char* memory) { give_back(memory, size); });
  std::memcpy(block.get(), bytes.data(), bytes.size());
  return {{block.get(), bytes.size()}, block};
}

MessagePart BlockPool::part(std::size_t bytes) {
  if (bytes <= kLeast) return MessagePart(bytes);
  const std::size_t size = size_for(bytes);
  return part_of(take(size), bytes, size);
}

MessagePart BlockPool::part_of(char* block, std::size_t bytes, std::size_t size) {
  return {block, bytes, give_part_back, reinterpret_cast<void*>(static_cast<std::uintptr_t>(size))};
}

}  // namespace meshbus
