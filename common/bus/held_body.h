#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "common/base/bytes.h"
#include "common/wire/frame.h"
#include "meshbus/body_parts.h"
#include "meshbus/shared_body.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// The largest body of a call or answer that is one message.
inline constexpr std::size_t kCallLimit = kBodyLimit - sizeof(wire::CallHeader);

/// A body as it is handed to a Bus. It is made on the sender's own thread before the reactor is
/// visited: a large one may have to be copied, which everybody else would wait for. Refers to what
/// it was made of.
class HeldBody {
 public:
  /// `is_sealed`: of a body that goes before its message, see BodyParts::hold(); nothing: it rides
  /// in its message. Throws std::bad_alloc.
  explicit HeldBody(const BodyParts& body, std::optional<bool> is_sealed = {}) {
    if (is_sealed) {
      large_ = body.hold(*is_sealed);
    } else {
      bytes_ = body.whole(text_);
    }
  }
  HeldBody(const HeldBody&) = delete;
  HeldBody& operator=(const HeldBody&) = delete;

  /// In one piece.
  Bytes bytes() const noexcept { return large_ ? large_->bytes() : bytes_; }
  /// Null: it rides in its message.
  const SharedBody* large() const noexcept { return large_ ? &*large_ : nullptr; }

 private:
  std::string text_;
  Bytes bytes_;
  std::optional<SharedBody> large_;
};

/// A large answer as it is sent; the same holds for it. `is_here`: to a proc of this host.
inline SharedBody hold_answer(std::string text, bool is_here) {
  return is_here ? SharedBody::copy(text) : SharedBody::of(std::move(text));
}

}  // namespace meshbus
