#pragma once

#include <vector>

#include "meshbus/client.h"

/// What several hosts say about meshes, put together. Pure.
namespace meshbus::cli {

/// Whether that host did not answer.
bool is_silent(const MeshListing& listing, const HostAddr& host);
/// What several hosts say about the same meshes, by name.
std::vector<MeshReport> merged(std::vector<MeshReport> meshes);

/// What hosts say `now`, after they said `before`. Meshes of hosts that do not answer now stay,
/// also when no other host knows them; what their ranks do is then unknown.
MeshListing renewed(MeshListing before, MeshListing now);

}  // namespace meshbus::cli
