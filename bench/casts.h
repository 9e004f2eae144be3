#pragma once

#include <cstddef>
#include <cstdint>

#include "meshbus/actor_mesh.h"
#include "meshbus/context.h"
#include "meshbus/proc_mesh_ref.h"

/// Casts to the ranks of a mesh whose program answers calls.
namespace meshbus::bench {

/// What the ranks answer.
inline constexpr std::uint32_t kCastPort = 1;
/// The type of actor that they have; it answers message `one` by 1.
inline constexpr const char* kCastActor = "member";

struct CastFigures {
  double p50_us = 0;
  double p99_us = 0;
  /// Messages that ranks got, and answered.
  double per_s = 0;
};
/// One message to every rank of the view, `count` times, each time until all have answered with as
/// many bytes. Throws std::runtime_error when one does not.
CastFigures cast_to(Context& context, const ProcMeshRef& view, std::size_t size, std::size_t count);
/// The same to such actors, whose answers are added up at each host.
CastFigures cast_and_reduce(const ActorView& view, std::size_t size, std::size_t count);

}  // namespace meshbus::bench
