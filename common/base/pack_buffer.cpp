#include "common/base/pack_buffer.h"

#include <algorithm>
#include <cstring>

#include "common/base/block_pool.h"

namespace meshbus {
namespace {

/// Above this the bytes move to a block.
constexpr std::size_t kSmall = 4096;
/// Up to this they are copied when they become a message part: a block that is on its way with
/// little in it would waste memory.
constexpr std::size_t kCopied = 16 * 1024;
/// A buffer that is this small at most is kept for the next pack: idle peers are many.
constexpr std::size_t kKept = 1024;

}  // namespace

void PackBuffer::grow(std::size_t needed) {
  std::size_t capacity = std::max<std::size_t>(capacity_, 256);
  while (capacity < needed && capacity < kSmall) capacity *= 2;
  if (capacity < needed) capacity = needed <= kBlock ? kBlock : 2 * needed;
  char* data = BlockPool::take(capacity);
  if (size_ > 0) std::memcpy(data, data_, size_);
  const std::size_t size = size_;
  drop();
  data_ = data;
  size_ = size;
  capacity_ = capacity;
}

void PackBuffer::drop() noexcept {
  BlockPool::give_back(data_, capacity_);
  data_ = nullptr;
  size_ = capacity_ = 0;
}

MessagePart PackBuffer::release() {
  if (size_ <= kCopied) {
    MessagePart part(data_, size_);
    size_ = 0;
    if (capacity_ > kKept) drop();
    return part;
  }
  MessagePart part = BlockPool::part_of(data_, size_, capacity_);
  data_ = nullptr;
  size_ = capacity_ = 0;
  return part;
}

}  // namespace meshbus
