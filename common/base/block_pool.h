#pragma once

#include <cstddef>
#include <string_view>

#include "common/base/message_part.h"
#include "meshbus/shared_body.h"

namespace meshbus {

/// Memory for what is large and soon gone (packs, bodies), kept for the next of its size: memory
/// that was just used costs no page faults, which for a body of 1 MiB take longer than copying it.
/// Of the whole process; any thread.
class BlockPool {
 public:
  /// Bytes that wait to be used again, at most.
  static constexpr std::size_t kKept = 2304 * 1024;

  /// The size of the block that this many bytes get: up to 1.1 MiB one of a few, above that
  /// themselves.
  static std::size_t size_for(std::size_t bytes) noexcept;
  /// `size` is one of size_for(). Throws std::bad_alloc.
  static char* take(std::size_t size);
  static void give_back(char* block, std::size_t size) noexcept;
  /// Frees the blocks that nobody has needed since the last call.
  static void free_unused() noexcept;
  /// Bytes that wait to be used again.
  static std::size_t kept() noexcept;

  /// A message part of that size in such a block, its bytes not initialised; a small one in memory
  /// of its own.
  static MessagePart part(std::size_t bytes);
  /// A copy of these bytes in such a block.
  static SharedBody copy(std::string_view bytes);
  /// The first `bytes` of a block as a message part. The block comes back when nobody has the part
  /// any more, on whatever thread.
  static MessagePart part_of(char* block, std::size_t bytes, std::size_t size);
};

}  // namespace meshbus
