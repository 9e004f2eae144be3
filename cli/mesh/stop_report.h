#pragma once

#include <string>
#include <vector>

#include "meshbus/host_mesh.h"

namespace meshbus::cli {

/// What a stop did to the ranks that were meant. Pure.
struct StopReport {
  std::uint64_t ended = 0;         ///< By this stop.
  std::uint64_t ended_before = 0;  ///< Before it.
  /// Ranks that have a report, because their host gave up on them, and live on.
  RankSet unkillable = {};

  /// "3 ranks ended; 1 had ended before"
  std::string text() const;
};

/// `before`: the mesh as it was; `after`: its ranks now, as far as they were meant.
StopReport report_stop(const MeshReport& before, const std::vector<RankReport>& after);

/// "rank 3", "ranks 0-1,5"
std::string named(const RankSet& ranks);

}  // namespace meshbus::cli
