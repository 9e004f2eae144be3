#pragma once

#include <vector>

#include "cli/support/choose_mesh.h"
#include "cli/support/reach.h"

namespace meshbus::cli {

/// Ranks of a mesh of which their host says nothing.
struct UnheardRanks {
  HostAddr host;
  RankSet ranks;
  /// The host answered without them: it was started again since, or it never got them.
  bool has_answered = false;
};

/// Those of the ranks that are meant, by host.
std::vector<UnheardRanks> unheard_ranks(const ReachedHosts& hosts, const MeantRanks& meant);

}  // namespace meshbus::cli
