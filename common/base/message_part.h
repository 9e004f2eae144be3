#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

namespace meshbus {

/// One part of a ZMTP message: bytes that parts may share. Small ones lie in the part itself.
///
/// A part belongs to one thread at a time; parts that share bytes may be on different threads, and
/// then nobody writes to them.
class MessagePart {
 public:
  /// Up to so many bytes need no memory of their own.
  static constexpr std::size_t kInside = 48;
  /// Gives memory back, on whatever thread.
  using Release = void (*)(void* data, void* hint);

  MessagePart() noexcept = default;
  /// Bytes that are not initialised. Throws std::bad_alloc.
  explicit MessagePart(std::size_t bytes);
  /// A copy of these. Throws std::bad_alloc.
  MessagePart(const void* data, std::size_t bytes);
  explicit MessagePart(std::string_view text) : MessagePart(text.data(), text.size()) {}
  /// These bytes themselves, until nobody has the part any more: then `release(data, hint)`, which
  /// must not throw. Throws std::bad_alloc, and releases nothing then.
  MessagePart(void* data, std::size_t bytes, Release release, void* hint);
  ~MessagePart() { clear(); }
  MessagePart(MessagePart&& other) noexcept { take(other); }
  MessagePart& operator=(MessagePart&& other) noexcept {
    if (this != &other) {
      clear();
      take(other);
    }
    return *this;
  }
  MessagePart(const MessagePart&) = delete;
  MessagePart& operator=(const MessagePart&) = delete;

  /// Has the bytes of the other part, too.
  void share(const MessagePart& other) noexcept;

  char* data() noexcept { return block_ != nullptr ? block_->data : inside_; }
  const char* data() const noexcept { return block_ != nullptr ? block_->data : inside_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::string_view view() const noexcept { return {data(), size_}; }

 private:
  struct Block {
    std::atomic<std::size_t> users{1};
    char* data = nullptr;
    Release release = nullptr;  ///< Null: the bytes lie behind the block.
    void* hint = nullptr;
  };

  void clear() noexcept {
    if (block_ != nullptr) let_go(block_);
    block_ = nullptr;
    size_ = 0;
  }
  /// Leaves the other one empty.
  void take(MessagePart& other) noexcept {
    size_ = std::exchange(other.size_, 0);
    block_ = std::exchange(other.block_, nullptr);
    if (block_ == nullptr) std::memcpy(inside_, other.inside_, size_);
  }
  static void let_go(Block* block) noexcept;

  Block* block_ = nullptr;  ///< Null: the bytes are inside.
  std::size_t size_ = 0;
  /// As aligned as the memory of a block: readers of messages count on it.
  alignas(std::max_align_t) char inside_[kInside];
};

}  // namespace meshbus
