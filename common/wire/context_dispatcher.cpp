#include "common/wire/context_dispatcher.h"

#include <string>

#include "common/wire/role_word.h"
#include "wire/control_generated.h"

namespace meshbus {

TypedBody typed_body_of(const ControlMessage& message) noexcept {
  return {message->body_type(), message->body()};
}

Error no_row_for(wire::Body type) {
  const std::string name = wire::EnumNameBody(type);
  return {ErrorCode::no_such_port,
          "nothing here handles " + (name.empty() ? "a message of an unknown type" : name)};
}

Error role_too_low(wire::Body type, Role least, Role role) {
  return {ErrorCode::unauthorised, std::string(wire::EnumNameBody(type)) + " needs role " +
                                       std::string(word_of(least)) + ", the sender has role " +
                                       std::string(word_of(role))};
}

}  // namespace meshbus
