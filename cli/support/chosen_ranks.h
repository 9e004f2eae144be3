#pragma once

#include <string>
#include <variant>
#include <vector>

#include "cli/support/reach.h"
#include "cli/support/selector.h"

namespace meshbus::cli {

/// Ranks of a running mesh that were chosen on the command line.
struct ChosenRanks {
  ReachedHosts hosts;
  MeshReport mesh;
  /// Together each rank once.
  std::vector<ProcMeshRef> views;
};

/// Finds them on the hosts that are meant. Otherwise the exit code; stderr says what is wrong.
std::variant<ChosenRanks, int> choose_views(const std::string& selector, const HostChoice& hosts,
                                            ContextOptions options = {});

}  // namespace meshbus::cli
