#pragma once

#include <cstddef>
#include <cstdint>

#include "meshbus/context.h"
#include "meshbus/proc_mesh_ref.h"

/// Casts to the ranks of a mesh whose program answers calls.
namespace meshbus::bench {

/// What the ranks answer.
inline constexpr std::uint32_t kCastPort = 1;

struct CastFigures {
  double p50_us = 0;
  double p99_us = 0;
  /// Messages that ranks got, and answered.
  double per_s = 0;
};
/// One message to every rank of the view, `count` times, each time until all have answered with as many bytes. Throws std::runtime_error
/// when one does not.
CastFigures cast_to(Context& context, const ProcMeshRef& view, std::size_t size, std::size_t count);

}  // namespace meshbus::bench
