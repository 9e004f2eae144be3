#include "common/base/message_part.h"

#include <new>

namespace meshbus {

static_assert(sizeof(MessagePart) == 64);

MessagePart::MessagePart(std::size_t bytes) : size_(bytes) {
  if (bytes <= kInside) return;
  void* const memory = ::operator new(sizeof(Block) + bytes);
  block_ = new (memory) Block;
  block_->data = static_cast<char*>(memory) + sizeof(Block);
}

MessagePart::MessagePart(const void* data, std::size_t bytes) : MessagePart(bytes) {
  if (bytes > 0) std::memcpy(this->data(), data, bytes);
}

MessagePart::MessagePart(void* data, std::size_t bytes, Release release, void* hint)
    : size_(bytes) {
  block_ = new (::operator new(sizeof(Block))) Block;
  block_->data = static_cast<char*>(data);
  block_->release = release;
  block_->hint = hint;
}

void MessagePart::share(const MessagePart& other) noexcept {
  if (this == &other) return;
  clear();
  size_ = other.size_;
  block_ = other.block_;
  if (block_ != nullptr) {
    block_->users.fetch_add(1, std::memory_order_relaxed);
  } else {
    std::memcpy(inside_, other.inside_, size_);
  }
}

void MessagePart::let_go(Block* block) noexcept {
  // The only one that has it needs no atomic operation; nobody else can begin to share it.
  if (block->users.load(std::memory_order_acquire) > 1 &&
      block->users.fetch_sub(1, std::memory_order_acq_rel) > 1)
    return;
  if (block->release != nullptr) block->release(block->data, block->hint);
  block->~Block();
  ::operator delete(block);
}

}  // namespace meshbus
