#include <array>
#include <charconv>
#include <ostream>
#include <utility>

#include "common/address/actor_words.h"
#include "mesh/text.h"
#include "meshbus/actor_ref.h"

namespace meshbus {

MessageType MessageType::from_key(std::uint64_t key) {
  MessageType type(0);
  type.key_ = key;
  return type;
}

std::string MessageType::to_string() const {
  if (!name_.empty()) return name_;
  if ((key_ & name_bit) == 0) return std::to_string(key_);
  std::array<char, 17> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), key_, 16).ptr;
  return "#" + std::string(digits.data(), end);
}

std::uint32_t actor_port(const Name& name, std::uint64_t pid) {
  return static_cast<std::uint32_t>(key_of(name.to_string() + "[" + std::to_string(pid) + "]")) |
         kActorPortBit;
}

std::uint32_t actor_port(const ActorId& actor) {
  return actor_port(actor.name(), actor.pid());
}

Result<ActorMeshRef> ActorMeshRef::parse(std::string_view text) {
  const text::Scanner whole("actor mesh", text);
  const std::size_t at = text.find('@');
  if (at == std::string_view::npos) return whole.unexpected_at(text.size(), "'@' and a proc mesh");
  auto name = Name::parse(whole.part("name", 0, at));
  if (!name) return fail(std::move(name).error());
  auto procs = ProcMeshRef::parse(text.substr(at + 1));
  if (!procs) {
    const auto position = procs.error().position();
    const auto error = procs.error().within("actor mesh: behind " + std::to_string(at));
    return fail(position ? error.at(at + 1 + *position) : error);
  }
  return ActorMeshRef(std::move(*procs), std::move(*name));
}

Result<ActorId> ActorMeshRef::actor_at(std::uint64_t ordinal) const {
  auto proc = procs_.proc_at(ordinal);
  if (!proc) return fail(std::move(proc).error());
  return ActorId(std::move(*proc), name_);
}

Result<ActorMeshRef> ActorMeshRef::range(std::string_view label, std::uint64_t begin,
                                         std::optional<std::uint64_t> end,
                                         std::uint64_t step) const {
  auto procs = procs_.range(label, begin, end, step);
  if (!procs) return fail(std::move(procs).error());
  return ActorMeshRef(std::move(*procs), name_);
}

Result<ActorMeshRef> ActorMeshRef::at(std::string_view label, std::uint64_t index) const {
  auto procs = procs_.at(label, index);
  if (!procs) return fail(std::move(procs).error());
  return ActorMeshRef(std::move(*procs), name_);
}

Result<ActorMeshRef> ActorMeshRef::sliced(Region region) const {
  auto procs = procs_.sliced(std::move(region));
  if (!procs) return fail(std::move(procs).error());
  return ActorMeshRef(std::move(*procs), name_);
}

std::string ActorMeshRef::to_string() const {
  return name_.to_string() + "@" + procs_.to_string();
}

[[gnu::visibility("default")]] std::ostream& operator<<(std::ostream& out,
                                                        const ActorMeshRef& mesh) {
  return out << mesh.to_string();
}

}  // namespace meshbus
