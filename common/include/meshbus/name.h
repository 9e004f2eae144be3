#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "meshbus/result.h"

/// Names of meshes, actors and procs.
///
///     meshbus::Result<meshbus::Name> mesh = meshbus::Name::make("trainers");
///         // trainers-13Se1Maqzryj, for example
///     if (!mesh) return mesh.error();                              // parse_error: name: at 0: ...
///     std::cout << mesh->base() << ' ' << *mesh << '\n';           // the base, then the name
///     meshbus::ProcName third = meshbus::proc_name(*mesh, 3);      // trainers_3-13Se1Maqzryj
///     meshbus::MeshProc back = *meshbus::parse_proc_name(third);
///         // {mesh: trainers-13Se1Maqzryj, rank: 3}
///     meshbus::Name same = *meshbus::Name::parse(mesh->to_string());  // == *mesh
///     meshbus::Name other = *meshbus::Name::make("trainers");      // != *mesh: another uuid
///
/// All of these are plain values: copy, compare, hash and print them on any thread.
namespace [[gnu::visibility("default")]] meshbus {

namespace text {
class Scanner;
}

/// A name: a base that people choose, and a uuid that makes it unique: `trainers-13Se1Maqzryj`.
/// Without a uuid it is plain.
///
/// The base has 1 to 63 characters, [A-Za-z_][A-Za-z0-9_]*. The uuid is a u64 in base 58, always 12
/// characters. System names (`service`, `local`, `agent`, `controller`) are reserved: they carry no
/// uuid and no mesh of a user can take them.
///
/// Errors of everything that makes a Name are parse_error; the detail has one of MissingName,
/// MissingUuid, InvalidUuid, InvalidName, and the position as a byte offset from 0.
class Name {
 public:
  static constexpr std::size_t max_base = 63;     ///< Characters of a base, at most.
  static constexpr std::size_t uuid_length = 12;  ///< Characters of a uuid.

  /// A new name that no other name ever equals: the uuid is drawn from the kernel (getrandom).
  /// Errors: parse_error when `base` is no base or is reserved; io_error when the kernel has no
  /// randomness to give.
  [[nodiscard]] static Result<Name> make(std::string_view base);
  /// The name of that base and uuid.
  [[nodiscard]] static Result<Name> make(std::string_view base, std::uint64_t uuid);
  /// A name without uuid: for systems, tests and people. Reserved bases are allowed.
  [[nodiscard]] static Result<Name> plain(std::string_view base);
  /// Reads what to_string() printed. Splits at the last '-'; without one it is plain.
  [[nodiscard]] static Result<Name> parse(std::string_view text);
  /// For parsers of longer texts inside meshbus: reads a whole part.
  [[nodiscard]] static Result<Name> parse(text::Scanner part);

  /// The reserved names.
  static Name service();
  static Name local();
  static Name agent();
  static Name controller();
  static bool is_reserved(std::string_view base) noexcept;

  const std::string& base() const noexcept { return base_; }  ///< `trainers`
  /// Nothing of a plain name.
  std::optional<std::uint64_t> uuid() const noexcept { return uuid_; }
  bool is_plain() const noexcept { return !uuid_; }  ///< Whether it has no uuid.

  /// `trainers-13Se1Maqzryj`, or the base alone when plain.
  std::string to_string() const;

  /// By base, then uuid; a plain name before all others of its base.
  friend auto operator<=>(const Name&, const Name&) = default;
  friend bool operator==(const Name&, const Name&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Name& name);

 private:
  Name(std::string base, std::optional<std::uint64_t> uuid) : base_(std::move(base)), uuid_(uuid) {}

  std::string base_;
  std::optional<std::uint64_t> uuid_;
};

/// The name of a proc within its host: a Name (`service`, `client-13Se1Maqzryj`), or that of a
/// mesh's proc, `trainers_3-13Se1Maqzryj`, whose create rank does not count towards the 63
/// characters.
class ProcName {
 public:
  /// Any Name can name a proc: a launcher's, or `service`. Implicit on purpose.
  ProcName(const Name& name) : text_(name.to_string()) {}  // NOLINT(google-explicit-constructor)

  /// Reads what to_string() printed. Errors: as Name::parse.
  [[nodiscard]] static Result<ProcName> parse(std::string_view text);
  [[nodiscard]] static Result<ProcName> parse(text::Scanner part);

  const std::string& to_string() const noexcept { return text_; }  ///< As parse() reads it.

  /// By text.
  friend auto operator<=>(const ProcName&, const ProcName&) = default;
  friend bool operator==(const ProcName&, const ProcName&) = default;
  friend std::ostream& operator<<(std::ostream& out, const ProcName& name);
  friend ProcName proc_name(const Name& mesh, std::uint64_t create_rank);

 private:
  explicit ProcName(std::string text) : text_(std::move(text)) {}

  std::string text_;
};

/// Which proc of which mesh.
struct MeshProc {
  Name mesh;  ///< The mesh that the proc is of.
  std::uint64_t
      create_rank;  ///< Row-major position in the mesh as it was made; slices do not change it.

  friend bool operator==(const MeshProc&, const MeshProc&) = default;
};

/// The name of a mesh's proc: base + `_` + create rank + `-` + uuid, so a mesh reference
/// gives every proc's address. Different (mesh, rank) give different names.
ProcName proc_name(const Name& mesh, std::uint64_t create_rank);

/// The reverse of proc_name(). Errors: parse_error (InvalidName) when it cannot be the name of a
/// mesh's proc: `service`, `client-13Se1Maqzryj`. A launcher that calls itself `client_3` cannot be
/// told from rank 3 of a mesh `client`: ask only for procs that meshes made.
[[nodiscard]] Result<MeshProc> parse_proc_name(const ProcName& name);
[[nodiscard]] Result<MeshProc> parse_proc_name(std::string_view text);

}  // namespace meshbus

template <>
struct std::hash<meshbus::Name> {
  std::size_t operator()(const meshbus::Name& name) const noexcept;
};
template <>
struct std::hash<meshbus::ProcName> {
  std::size_t operator()(const meshbus::ProcName& name) const noexcept;
};
