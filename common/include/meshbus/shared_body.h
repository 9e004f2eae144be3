#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace [[gnu::visibility("default")]] meshbus {

/// A body that is sent as it lies in memory: send() keeps a share of it instead of making a copy,
/// which for bodies of 1 MB is much of what sending costs. The same one may be sent to many.
///
///     auto weights = SharedBody::of(std::move(text));
///     for (std::uint64_t rank = 0; rank < world; ++rank) proc.send(rank, 1, weights);
///
///     auto tensor = std::make_shared<const std::vector<float>>(...);  // memory of one's own
///     SharedBody view({reinterpret_cast<const char*>(tensor->data()), tensor->size() *
///     sizeof(float)}, tensor);
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

  /// What is sent.
  std::string_view bytes() const noexcept { return bytes_; }
  /// What keeps that alive; may be empty, for bytes that last as long as the process.
  const std::shared_ptr<const void>& owner() const noexcept { return owner_; }

 private:
  std::string_view bytes_;
  std::shared_ptr<const void> owner_;
};

}  // namespace meshbus
