#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "meshbus/result.h"

namespace [[gnu::visibility("default")]] meshbus {

/// A body that is sent as it lies in memory: send() keeps a share of it instead of making a copy,
/// which for bodies of 1 MB is much of what sending costs. The same one may be sent to many.
///
///     auto weights = SharedBody::of(std::move(text));
///     for (std::uint64_t rank = 0; rank < world; ++rank) proc.send(rank, 1, weights);
///
///     auto tensor = std::make_shared<const std::vector<float>>(...);  // memory of one's own
///     SharedBody view({reinterpret_cast<const char*>(tensor->data()),
///                      tensor->size() * sizeof(float)}, tensor);
///
/// Procs on one host read a body above 1 MiB where its sender put it. It has to lie in sealed
/// memory for that: make() and copy() put it there, and send() copies any other body there first.
///
///     auto weights = SharedBody::make(bytes, [&](char* at) { read_into(at, bytes); });
///
/// Nobody may change the bytes while anybody has a share. The last one is given up on any thread,
/// the library's own included (so giving it up must not wait), when they have left this process or
/// turned out not to be sendable. Bodies up to 32 KiB are copied all the same: they ride together
/// with others.
class SharedBody {
 public:
  /// `owner` keeps `bytes` alive and as they are.
  SharedBody(std::string_view bytes, std::shared_ptr<const void> owner)
      : bytes_(bytes), owner_(std::move(owner)) {}
  /// The string is moved, not copied.
  static SharedBody of(std::string bytes) {
    auto owner = std::make_shared<const std::string>(std::move(bytes));
    const std::string_view view = *owner;
    return {view, std::move(owner)};
  }
  /// A body that `write` fills, in place, before anybody else sees it. Errors: io_error (no memory,
  /// or no descriptor left).
  [[nodiscard]] static Result<SharedBody> make(std::size_t bytes,
                                               const std::function<void(char*)>& write);
  /// A copy for large bodies: in sealed memory, or in plain memory when there is none.
  static SharedBody copy(std::string_view bytes) { return gather({&bytes, 1}); }
  /// The same of pieces, one behind the other. Throws std::bad_alloc.
  static SharedBody gather(std::span<const std::string_view> pieces);

  /// A body that lasts, of one that came: a share of it where it is large and has an owner, a copy
  /// otherwise. Throws std::bad_alloc.
  static SharedBody keep(std::string_view bytes, const std::shared_ptr<const void>* owner);

  /// What is sent.
  std::string_view bytes() const noexcept { return bytes_; }
  /// What keeps that alive; may be empty, for bytes that last as long as the process.
  const std::shared_ptr<const void>& owner() const noexcept { return owner_; }

  /// The sealed memory that the body is all of, as long as owner() is alive; -1: it lies elsewhere.
  int descriptor() const noexcept { return descriptor_; }

 private:
  SharedBody(std::string_view bytes, std::shared_ptr<const void> owner, int descriptor);
  /// Takes the descriptor.
  [[nodiscard]] static Result<SharedBody> of_sealed(int descriptor, std::size_t bytes);

  std::string_view bytes_;
  std::shared_ptr<const void> owner_;
  int descriptor_ = -1;
};

}  // namespace meshbus
