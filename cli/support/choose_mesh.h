#pragma once

#include <string>
#include <vector>

#include "cli/support/command.h"
#include "cli/support/mesh_pattern.h"
#include "meshbus/client.h"

namespace meshbus::cli {

/// Which meshes a command is about: those that live, or also those that have ended.
enum class Among { live, all };

/// The mesh that `word` names: its whole name, or a base or pattern that means one live mesh, or
/// nothing when there is only one. A word that means several is an error that lists them.
/// Among::all also finds the only ended one. Null: stderr says why. Valid as long as the listing.
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

/// The ranks of several meshes.
struct MeantMeshes {
  std::vector<MeantRanks> all = {};
  /// The exit code when there are none; stderr says why.
  int code = 0;
};
/// The same for commands that take several meshes: those of a pattern, all of them, or the one
/// that choose_ranks() finds. A pattern and --all mean ended meshes only with Among::all.
MeantMeshes choose_meshes(const MeshListing& listing, const MeshChoice& choice, Among among);

/// "train-13Se1Maqzryj (live, the newest), train-13Se1Mz9ryjK (ended), ...": the newest first.
std::string listed(const std::vector<const MeshReport*>& meshes);

/// The ranks of a mesh that lie on a host.
RankSet ranks_on(const MeshReport& mesh, const HostAddr& host);
/// Those of them that are meant.
RankSet ranks_on(const MeantRanks& meant, const HostAddr& host);

/// Whether it is one of `ranks`, or these are empty.
bool is_meant(const RankSet& ranks, std::uint64_t rank);

}  // namespace meshbus::cli
