#pragma once

#include <string>
#include <vector>

#include "cli/chaos/chaos_plan.h"
#include "cli/support/reach.h"

namespace meshbus::cli {

/// What the command line says may be disturbed.
struct ChaosChoice {
  std::vector<std::string> ranks = {};  ///< Selectors: train, train[0-3].
  std::string roles = {};               ///< "broker,agent"
  std::vector<std::string> links = {};  ///< "ADDRESS,ADDRESS", or "all".
  bool has_disks = false;
};

/// The parts of the hosts that are meant. Empty: stderr says why.
std::vector<ChaosTarget> find_chaos_targets(const ReachedHosts& hosts, const ChaosChoice& choice);

}  // namespace meshbus::cli
