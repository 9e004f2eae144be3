#include "common/pack_buffer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

namespace meshbus {
namespace {

/// Above this the bytes move to a block.
constexpr std::size_t kSmall = 4096;
/// Up to this they are copied when they become a message part: a block that is on its way with little in it would waste memory.
constexpr std::size_t kCopied = 16 * 1024;
/// A buffer that is this small at most is kept for the next pack: idle peers are many.
constexpr std::size_t kKept = 1024;

char* allocate(std::size_t bytes) {
  if (void* memory = std::malloc(bytes)) return static_cast<char*>(memory);
  throw std::bad_alloc();
}

/// Blocks wait here between two packs. libzmq's threads give them back.
class Pool {
 public:
  /// Never destroyed: libzmq's threads may outlive static objects.
  static Pool& one() {
    static Pool& pool = *new Pool;
    return pool;
  }
  char* take() {
    {
      const std::lock_guard lock(mutex_);
      if (!blocks_.empty()) {
        char* block = blocks_.back();
        blocks_.pop_back();
        return block;
      }
    }
    return allocate(PackBuffer::kBlock);
  }
  void give_back(char* block) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (blocks_.size() < PackBuffer::kBlocksKept) {
        blocks_.push_back(block);
        return;
      }
    }
    std::free(block);
  }

 private:
  Pool() { blocks_.reserve(PackBuffer::kBlocksKept); }
  std::mutex mutex_;
  std::vector<char*> blocks_;  // guarded by mutex_
};

void give_block_back(void* block, void*) {
  Pool::one().give_back(static_cast<char*>(block));
}
void free_bytes(void* bytes, void*) {
  std::free(bytes);
}

}  // namespace

void PackBuffer::grow(std::size_t needed) {
  std::size_t capacity = std::max<std::size_t>(capacity_, 256);
  while (capacity < needed && capacity < kSmall) capacity *= 2;
  if (capacity < needed) capacity = needed <= kBlock ? kBlock : 2 * needed;
  char* data = capacity == kBlock ? Pool::one().take() : allocate(capacity);
  if (size_ > 0) std::memcpy(data, data_, size_);
  const std::size_t size = size_;
  drop();
  data_ = data;
  size_ = size;
  capacity_ = capacity;
}

void PackBuffer::drop() noexcept {
  if (is_block()) {
    Pool::one().give_back(data_);
  } else {
    std::free(data_);
  }
  data_ = nullptr;
  size_ = capacity_ = 0;
}

zmq::message_t PackBuffer::release() {
  if (size_ <= kCopied) {
    zmq::message_t part(data_, size_);
    size_ = 0;
    if (capacity_ > kKept) drop();
    return part;
  }
  zmq::message_t part(data_, size_, is_block() ? give_block_back : free_bytes);
  data_ = nullptr;
  size_ = capacity_ = 0;
  return part;
}

}  // namespace meshbus
