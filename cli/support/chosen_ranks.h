#pragma once

#include <string>
#include <variant>
#include <vector>

#include "cli/support/find_hosts.h"
#include "cli/support/selector.h"

namespace meshbus::cli {

/// Ranks of a running mesh that were chosen on the command line.
struct ChosenRanks {
  AttachedHosts attached;
  MeshReport mesh;
  /// Together each rank once.
  std::vector<ProcMeshRef> views;
};

/// Finds them on the hosts that were said. Otherwise the exit code, after what is wrong was said on
/// stderr.
std::variant<ChosenRanks, int> choose_ranks(const std::string& selector, const HostChoice& hosts);

}  // namespace meshbus::cli
