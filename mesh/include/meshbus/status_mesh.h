#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "meshbus/overlay.h"
#include "meshbus/result.h"
#include "meshbus/status.h"
#include "meshbus/value_mesh.h"

/// The statuses of the ranks of a mesh.
///
///     using namespace meshbus;
///     StatusMesh mesh(*Extent::parse("host=2,gpu=4"), Status::Kind::not_exist);
///     mesh.merge(*parse_statuses("Running=0..5,7..8;Failed=5..7"));   // reported by a host
///     to_string(mesh);                                                // the same
///     to_string(missing(mesh, Status::Kind::stopped));                // Running=0..5,7..8: the
///                                                                     // ranks that have not ended
namespace [[gnu::visibility("default")]] meshbus {

/// A million ranks that are updated one by one take tens of nanoseconds each, whatever the order,
/// and one byte at most.
using StatusMesh = ValueMesh<Status>;
/// What somebody says about some of the ranks.
using StatusOverlay = Overlay<Status>;

/// Grouped ranks: `Running=0..5,7..8;Failed("exit 3")=5..7`, the statuses in their order, each with
/// half-open intervals of ranks.
std::string to_string(const StatusOverlay& statuses);
std::string to_string(const StatusMesh& mesh);
/// Reads what to_string() printed, groups and intervals in any order; nothing is the empty overlay.
/// For a mesh: StatusMesh::make(region, overlay). Errors: parse_error, with the position as a byte
/// offset from 0.
Result<StatusOverlay> parse_statuses(std::string_view text);

/// The ranks that have not reached `minimum`, and their statuses. Unknown has not.
StatusOverlay missing(const StatusMesh& mesh, Status::Kind minimum);
/// Their number. O(different statuses).
std::uint64_t count_missing(const StatusMesh& mesh, Status::Kind minimum);

}  // namespace meshbus
