#pragma once

#include <cstdint>
#include <string>

#include "meshbus/actor_ref.h"
#include "meshbus/result.h"

namespace meshbus {

/// Set in the port of every actor.
inline constexpr std::uint32_t kActorPortBit = std::uint32_t{1} << 31;

/// Whether that is the port of an actor (actor_port()).
constexpr bool is_actor_port(std::uint32_t port) noexcept {
  return (port & kActorPortBit) != 0;
}
/// How a proc says that it has no such actor. It knows only the port (see actor_port()).
std::string no_actor_words(std::uint32_t port);

/// The same error with the names that the caller of an actor used: a proc that has no such actor,
/// or an actor that has no such handler, knows only hashes of them. Pure.
Error in_names(const Error& error, const Name& actor, std::uint64_t pid, const MessageType& type);
inline Error in_names(const Error& error, const ActorId& actor, const MessageType& type) {
  return in_names(error, actor.name(), actor.pid(), type);
}

}  // namespace meshbus
