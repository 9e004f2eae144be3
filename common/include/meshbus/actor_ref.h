#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "meshbus/address.h"
#include "meshbus/key.h"
#include "meshbus/proc_mesh_ref.h"
#include "meshbus/result.h"

/// Names of actors and of their messages, for senders in launchers and procs alike.
///
///     using namespace meshbus;
///     ActorMeshRef counters(proc_mesh, *Name::plain("counter"));
///         // the actor `counter` of each proc of that mesh
///     counters.actor_at(3)->to_string();   // "tcp:h1:7420,trainers_3-13Se1Maqzryj,counter[0]"
///     actor_port(*counters.actor_at(3));   // its port: computed, never looked up
///     MessageType("add") != MessageType(7);  // messages have a name or a number
namespace [[gnu::visibility("default")]] meshbus {

/// Identifies a message to an actor: a short name, or a number. On the wire both are 8 bytes; only
/// a program that knows the name can turn it back into text. A plain value.
class MessageType {
 public:
  /// A number. Implicit on purpose: `call(actor, 7, ...)`.
  template <std::unsigned_integral Number>
  MessageType(Number number) noexcept
      : key_(static_cast<std::uint32_t>(number)) {  // NOLINT(google-explicit-constructor)
    static_assert(sizeof(Number) <= sizeof(std::uint32_t),
                  "message types are numbers of 32 bits, or names");
  }
  /// Below zero is another number, as conversions have it.
  MessageType(int number) noexcept
      : key_(static_cast<std::uint32_t>(number)) {}  // NOLINT(google-explicit-constructor)
  /// A name. Two names share a key with a probability of 2^-63; an actor that would have both
  /// refuses to be made.
  MessageType(std::string_view name)
      : key_(key_of(name) | name_bit), name_(name) {}  // NOLINT(google-explicit-constructor)
  MessageType(const char* name)
      : MessageType(std::string_view(name)) {}  // NOLINT(google-explicit-constructor)
  MessageType(const std::string& name)
      : MessageType(std::string_view(name)) {}  // NOLINT(google-explicit-constructor)
  /// What came from elsewhere: its name is not known.
  static MessageType from_key(std::uint64_t key);

  /// What travels.
  std::uint64_t key() const noexcept { return key_; }
  /// The name; empty of numbers, and of names that are known by their key only.
  const std::string& name() const noexcept { return name_; }
  /// `add`, `7`, or `#8f3c...` when only the key of a name is known.
  std::string to_string() const;

  /// By key: a name equals itself when only its key is known.
  friend bool operator==(const MessageType& a, const MessageType& b) noexcept {
    return a.key_ == b.key_;
  }
  friend std::strong_ordering operator<=>(const MessageType& a, const MessageType& b) noexcept {
    return a.key_ <=> b.key_;
  }

 private:
  static constexpr std::uint64_t name_bit = std::uint64_t{1} << 63;

  std::uint64_t key_;
  std::string name_;
};

/// The port of the actor `NAME[pid]` in its proc: the lower 31 bits of key_of("NAME[pid]"), and bit
/// 31. Part of the protocol.
std::uint32_t actor_port(const Name& name, std::uint64_t pid = 0);
std::uint32_t actor_port(const ActorId& actor);

/// Names the actors of one name in the procs of a mesh, or of a slice of it. A plain value: copy
/// it, print it, send it to another process, use it on any thread. Keeps nothing alive, and needs
/// nobody to answer: every address is computed.
class ActorMeshRef {
 public:
  ActorMeshRef(ProcMeshRef procs, Name name)
      : procs_(std::move(procs)), name_(std::move(name)) {}  ///< Whether they are there or not.

  /// Reads what to_string() printed. Errors: parse_error, and those of ProcMeshRef::parse.
  [[nodiscard]] static Result<ActorMeshRef> parse(std::string_view text);

  const Name& name() const noexcept { return name_; }  ///< The name that they have in common.
  /// The procs that they live in, and how they are arranged.
  const ProcMeshRef& procs() const noexcept { return procs_; }
  const Region& region() const noexcept { return procs_.region(); }
  std::uint64_t num_ranks() const noexcept { return procs_.num_ranks(); }

  /// The actor at that ordinal of this view. Errors: out_of_range.
  [[nodiscard]] Result<ActorId> actor_at(std::uint64_t ordinal) const;
  /// The same, under the name that View and other code for whatever is ranked know
  /// (meshbus/view.h).
  [[nodiscard]] Result<ActorId> get(std::uint64_t ordinal) const { return actor_at(ordinal); }

  /// Slices, as those of ProcMeshRef, and with their errors.
  [[nodiscard]] Result<ActorMeshRef> range(std::string_view label, std::uint64_t begin,
                                           std::optional<std::uint64_t> end = std::nullopt,
                                           std::uint64_t step = 1) const;
  [[nodiscard]] Result<ActorMeshRef> at(std::string_view label, std::uint64_t index) const;
  [[nodiscard]] Result<ActorMeshRef> sliced(Region region) const;

  /// `NAME@PROCMESHREF`
  std::string to_string() const;

  friend bool operator==(const ActorMeshRef&, const ActorMeshRef&) = default;
  /// By procs, then name: an order for maps and sets.
  friend std::strong_ordering operator<=>(const ActorMeshRef&, const ActorMeshRef&) = default;
  friend std::ostream& operator<<(std::ostream& out, const ActorMeshRef& mesh);

 private:
  ProcMeshRef procs_;
  Name name_;
};

}  // namespace meshbus
