#include "common/wire/actor_body.h"

#include <cstring>

#include "wire/actors_generated.h"

namespace meshbus {

static_assert(sizeof(wire::ActorHeader) == 16, "the layout in actors.fbs is frozen");

ActorBodyParts::ActorBodyParts(const MessageType& type, std::uint32_t from, const BodyParts& body)
    : header_(type.key(), from, 0) {
  two_.front() = bytes_of(&header_, sizeof header_);
  const auto pieces = body.pieces();
  if (pieces.size() <= 1) {
    if (!pieces.empty()) two_.back() = pieces.front();
  } else {
    many_.reserve(pieces.size() + 1);
    many_.push_back(two_.front());
    many_.insert(many_.end(), pieces.begin(), pieces.end());
  }
}

std::string encode_actor_body(const MessageType& type, std::uint32_t from, const BodyParts& bytes) {
  std::string body;
  (void)BodyParts(ActorBodyParts(type, from, bytes)).whole(body);
  return body;
}

Result<ActorBody> decode_actor_body(Bytes body) {
  wire::ActorHeader header;
  if (body.size() < sizeof header) {
    return fail(ErrorCode::malformed_message, "a message to an actor begins with " +
                                                  std::to_string(sizeof header) +
                                                  " bytes that say what it is; it has " +
                                                  std::to_string(body.size()) + " in all");
  }
  std::memcpy(&header, body.data(), sizeof header);
  return ActorBody{header.message(), header.from(), body.substr(sizeof header)};
}

}  // namespace meshbus
