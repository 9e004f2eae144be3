#pragma once

#include <string>

#include "meshbus/client.h"

namespace meshbus::cli {

/// "train" for "train-13Se1Maqzryj".
std::string base_of(const std::string& mesh);

/// Which meshes a command is about: those that live, or also those that have ended.
enum class Among { live, all };

/// The mesh that `word` names: its whole name, or a base that means one live mesh, or nothing when
/// there is only one. A base that means several is an error that lists them. Among::all also finds
/// the only ended one. Null: stderr says why. Valid as long as the listing.
const MeshReport* choose_mesh(const MeshListing& listing, const std::string& word, Among among);

/// The ranks of a mesh that a command names.
struct MeantRanks {
  /// Null: stderr says why, and `code` is the exit code.
  const MeshReport* mesh = nullptr;
  /// Create ranks. Empty: all.
  RankSet ranks = {};
  int code = 0;
};
/// The same for a selector (selector.h): train, train[0-5,7], train[host=1].
MeantRanks choose_ranks(const MeshListing& listing, const std::string& selector, Among among);

/// The ranks of a mesh that lie on a host.
RankSet ranks_on(const MeshReport& mesh, const HostAddr& host);

/// Whether it is one of `ranks`, or these are empty.
bool is_meant(const RankSet& ranks, std::uint64_t rank);

}  // namespace meshbus::cli
