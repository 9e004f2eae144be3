#include "common/wire/actor_body.h"

#include <cstring>

#include "meshbus/large_text.h"
#include "wire/actors_generated.h"

namespace meshbus {

static_assert(sizeof(wire::ActorHeader) == 16, "the layout in actors.fbs is frozen");

std::string encode_actor_body(const MessageType& type, std::uint32_t from, std::string_view bytes) {
  const wire::ActorHeader header(type.key(), from, 0);
  std::string body;
  reserve_large(body, sizeof header + bytes.size());
  body.assign(reinterpret_cast<const char*>(&header), sizeof header);
  body.append(bytes);
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
