#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/wire/frame.h"
#include "meshbus/actor_ref.h"
#include "meshbus/body_parts.h"
#include "meshbus/result.h"
#include "wire/actors_generated.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// What a call or a message to an actor may have, besides what is in front of it.
inline constexpr std::size_t kActorCallLimit =
    kBodyLimit - sizeof(wire::CallHeader) - sizeof(wire::ActorHeader);

/// The body of a message or call to an actor: ActorHeader and bytes. `from`: the port of the actor
/// that sends it, or 0.
std::string encode_actor_body(const MessageType& type, std::uint32_t from, const BodyParts& bytes);

/// The same as pieces, for what sends them: nothing is copied. Refers to the body.
class ActorBodyParts {
 public:
  ActorBodyParts(const MessageType& type, std::uint32_t from, const BodyParts& body);
  ActorBodyParts(const ActorBodyParts&) = delete;
  ActorBodyParts& operator=(const ActorBodyParts&) = delete;

  operator BodyParts() const noexcept {
    return many_.empty() ? std::span<const std::string_view>(two_) : many_;
  }

 private:
  wire::ActorHeader header_;
  std::array<std::string_view, 2> two_;
  /// When the body has several pieces; with the header.
  std::vector<std::string_view> many_;
};

/// What an actor was sent.
struct ActorBody {
  std::uint64_t message;
  std::uint32_t from;
  Bytes bytes;  ///< Refers to what was decoded.
};
/// Errors: malformed_message.
Result<ActorBody> decode_actor_body(Bytes body);

}  // namespace meshbus
