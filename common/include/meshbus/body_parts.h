#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meshbus/shared_body.h"

namespace [[gnu::visibility("default")]] meshbus {

/// This is what all functions that send take: bytes, pieces of them that arrive as one body (a
/// gather list), or a SharedBody.
///
///     proc.call(3, 1, "hello", 10s);
///
///     const std::string_view pieces[] = {head, {data, size}};
///     proc.call(3, 1, pieces, 10s);
///
///     const auto weights = SharedBody::make(bytes, fill);
///     proc.call(3, 1, *weights, 10s);
///
/// Pieces above 1 MiB in all are copied once, to where they are sent from; smaller ones go through
/// a text. A SharedBody of sealed memory (make(), copy(), gather()) is not copied, except behind
/// the header of a message to an actor; any other one is copied for procs of this host and for
/// many. All of it must stay as it is until the function that takes it returns. Any thread.
class BodyParts {
 public:
  BodyParts() = default;  ///< An empty body.
  BodyParts(std::string_view bytes) : one_(bytes), size_(bytes.size()) {}
  BodyParts(const std::string& bytes) : BodyParts(std::string_view(bytes)) {}
  BodyParts(const char* text) : BodyParts(std::string_view(text)) {}
  BodyParts(const char* bytes, std::size_t size) : BodyParts(std::string_view(bytes, size)) {}
  BodyParts(const SharedBody& body) : BodyParts(body.bytes()) { shared_ = &body; }
  BodyParts(std::span<const std::string_view> pieces) : many_(pieces) {
    for (const auto piece : pieces) size_ += piece.size();
  }
  BodyParts(const std::vector<std::string_view>& pieces)
      : BodyParts(std::span<const std::string_view>(pieces)) {}
  template <std::size_t N>
  BodyParts(const std::string_view (&pieces)[N])
      : BodyParts(std::span<const std::string_view>(pieces)) {}

  /// In bytes.
  std::size_t size() const noexcept { return size_; }
  /// The pieces, one behind the other.
  std::span<const std::string_view> pieces() const noexcept {
    return many_.data() == nullptr ? std::span(&one_, 1) : many_;
  }
  /// All of it as one piece: as it lies there, or copied to `storage`. Throws std::bad_alloc.
  std::string_view whole(std::string& storage) const {
    return many_.data() == nullptr ? one_ : gathered(storage);
  }
  /// A body that outlives this: a share of the SharedBody, or a copy, in sealed memory
  /// (`is_sealed`: for procs of this host, which then read it there) or in plain memory. Throws
  /// std::bad_alloc.
  SharedBody hold(bool is_sealed) const;
  /// The SharedBody that it was made of; null: it was made of something else.
  const SharedBody* shared() const noexcept { return shared_; }

 private:
  std::string_view gathered(std::string& storage) const;

  std::string_view one_;
  std::span<const std::string_view> many_;
  const SharedBody* shared_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace meshbus
