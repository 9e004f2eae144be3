#pragma once

#include <cstddef>
#include <utility>

#include "common/base/message_part.h"

namespace meshbus {

/// The bytes of a pack as it grows, and how they become a message part. Few bytes lie in memory of
/// about their size and are copied at the end; many lie in a block (BlockPool) that becomes the
/// part as it is.
class PackBuffer {
 public:
  /// Room of a block: what a pack and one message more need.
  static constexpr std::size_t kBlock = 132 * 1024;

  PackBuffer() = default;
  PackBuffer(PackBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  PackBuffer& operator=(PackBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~PackBuffer() { drop(); }

  /// Makes room for so many bytes behind the others, not initialised, and says where.
  char* extend(std::size_t bytes) {
    if (capacity_ - size_ < bytes) grow(size_ + bytes);
    char* at = data_ + size_;
    size_ += bytes;
    return at;
  }
  char* data() noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  /// The bytes; this is empty afterwards.
  MessagePart release();

 private:
  void grow(std::size_t needed);
  void drop() noexcept;

  char* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace meshbus
