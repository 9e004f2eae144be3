#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "meshbus/address.h"
#include "meshbus/proc_mesh_ref.h"
#include "meshbus/region.h"
#include "wire/forward.h"

namespace meshbus {

/// The shape of a mesh of procs and where its ranks lie, which changes when the mesh is resized
/// (docs/decisions/0062-a-mesh-grows-at-its-end.md) or ranks of a lost host move to another one
/// (docs/decisions/0068-ranks-of-a-lost-host-move-to-a-spare.md). A plain value.
struct MeshLayout {
  Region region = {};
  std::vector<HostAddr> hosts = {};
  /// How often it has changed.
  std::uint32_t revision = 0;
};

/// The layout after `before` with these hosts, of which the first ones are those of `before`, or
/// that are the first ones of those: one block of ranks for each. Errors: refused, when it cannot
/// be done without another number or address for a rank that stays; the detail says why.
Result<MeshLayout> resized(const MeshLayout& before, std::vector<HostAddr> hosts);

/// The layout after `before` in which `spare` has the place of `lost`, wherever that is in the list
/// of hosts: no rank changes its number, and only those of the lost host their address. Errors:
/// refused: `lost` has no ranks of it.
Result<MeshLayout> replaced(const MeshLayout& before, const HostAddr& lost, const HostAddr& spare);

/// Whether `after` can be what some calls of resized() and replaced() have made of `before`: the
/// same axes, and blocks of the same length. Errors: refused.
Result<void> check_resized(const MeshLayout& before, const MeshLayout& after);
/// Where that rank lies. `layout` has it, and has been checked.
const HostAddr& host_of(const MeshLayout& layout, std::uint64_t rank);

std::unique_ptr<wire::MeshLayoutT> to_wire(const MeshLayout& layout);
/// Errors: as from_wire() of a region; parse_error; configuration_error, when there are ranks and
/// no hosts.
Result<MeshLayout> from_wire(const wire::MeshLayout& layout);

}  // namespace meshbus
