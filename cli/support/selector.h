#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "meshbus/proc_mesh_ref.h"
#include "meshbus/rank_report.h"
#include "meshbus/result.h"

namespace meshbus::cli {

/// Ranks of a mesh, as people type them:
///     trainers                   all of that mesh
///     trainers[0-5,7]            these ranks of it
///     trainers:2, trainers/2     one rank; output names it in the second way
///     trainers[host=1,gpu=0:4]   a slice of it: LABEL=I or LABEL=[B]:[E][:STEP], from left to
///     right [0-5,7]   host=1,gpu=0:4   the same of the only mesh that there is
struct Selector {
  std::string mesh = {};                 ///< Empty: the only one.
  RankSet ranks = {};                    ///< Create ranks. Empty: all, or those of the slices.
  std::vector<std::string> slices = {};  ///< Texts for sliced(), in order. Never besides ranks.

  /// Errors: parse_error with the position.
  static Result<Selector> parse(std::string_view text);
  /// The ranks that are meant, as views that together have each once, by ascending create rank
  /// where ranks were given. Errors: not_exist (a rank), and those of sliced().
  Result<std::vector<ProcMeshRef>> select(const ProcMeshRef& mesh) const;
};

}  // namespace meshbus::cli
