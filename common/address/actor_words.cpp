#include "common/address/actor_words.h"

#include <cctype>
#include <utility>

namespace meshbus {
namespace {

/// Once: a hash is there once. What it is a part of ("12" of "123") is left.
bool replace(std::string& text, const std::string& what, const std::string& by) {
  const auto at = text.find(what);
  if (at == std::string::npos) return false;
  const auto end = at + what.size();
  if (end < text.size() && std::isxdigit(static_cast<unsigned char>(text[end])) != 0) return false;
  text.replace(at, what.size(), by);
  return true;
}

}  // namespace

std::string no_actor_words(std::uint32_t port) {
  return " has no actor with port " + std::to_string(port);
}

Error in_names(const Error& error, const Name& actor, std::uint64_t pid, const MessageType& type) {
  if (error.code() != ErrorCode::no_such_port) return error;
  const auto name = actor.to_string() + (pid == 0 ? "" : "[" + std::to_string(pid) + "]");
  auto detail = error.detail();
  const bool is_named =
      replace(detail, no_actor_words(actor_port(actor, pid)), " has no actor " + name) ||
      replace(detail, "message " + MessageType::from_key(type.key()).to_string(),
              "message " + type.to_string());
  return is_named ? Error(error.code(), std::move(detail)) : error;
}

}  // namespace meshbus
