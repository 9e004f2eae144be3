#pragma once

#include <string>
#include <vector>

#include "meshbus/client.h"

namespace meshbus::cli {

/// Of "train-13Se1Maqzryj": "train".
std::string base_of(const std::string& mesh);

/// The meshes that `word` means: that very one, or all of that base. Valid as long as the listing.
std::vector<const MeshReport*> matching(const MeshListing& listing, const std::string& word);

/// The mesh that is meant by its name, with or without its uuid, or by nothing at all: the only
/// one, or the only live one. Null: it has been said on stderr why. Valid as long as the listing.
const MeshReport* choose_mesh(const MeshListing& listing, const std::string& word);

}  // namespace meshbus::cli
