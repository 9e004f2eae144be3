#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "meshbus/name.h"
#include "meshbus/result.h"

namespace meshbus {

/// The actors of one name in the procs of a mesh: "trainers-13Se1Maqzryj,tally", as the ActorIds of
/// its procs have it. Where messages of a controller name a mesh (Subscribe, MeshEvent, GetState,
/// ...) this names its actors. A plain value.
class ActorsName {
 public:
  ActorsName(Name mesh, Name actor) : mesh_(std::move(mesh)), actor_(std::move(actor)) {}
  /// Errors: parse_error, and those of Name::parse.
  static Result<ActorsName> parse(std::string_view text) {
    const auto comma = text.find(',');
    if (comma == std::string_view::npos)
      return fail(ErrorCode::parse_error,
                  "actors are named MESH,NAME, and not '" + std::string(text) + "'");
    auto mesh = Name::parse(text.substr(0, comma));
    if (!mesh) return fail(mesh.error());
    auto actor = Name::parse(text.substr(comma + 1));
    if (!actor) return fail(actor.error());
    return ActorsName(std::move(*mesh), std::move(*actor));
  }
  /// Whether that is not the name of a mesh of procs. No name has a comma.
  static bool is_meant(std::string_view text) noexcept {
    return text.find(',') != std::string_view::npos;
  }
  /// What all names of actors of that mesh begin with.
  static std::string prefix_of(std::string_view mesh) { return std::string(mesh) + ","; }

  const Name& mesh() const noexcept { return mesh_; }
  const Name& actor() const noexcept { return actor_; }
  std::string to_string() const { return mesh_.to_string() + "," + actor_.to_string(); }

 private:
  Name mesh_;
  Name actor_;
};

}  // namespace meshbus
