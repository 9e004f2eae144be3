#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "meshbus/client.h"
#include "wire/stacks_generated.h"

namespace meshbus::cli {

/// What hosts say about the threads of ranks.
struct AskedStacks {
  std::vector<wire::StacksT> answers;
  /// Hosts that did not answer, and why.
  std::vector<std::string> problems;
  std::chrono::milliseconds took{0};
};

/// Asks all hosts at once, again for what they left out, until `limit` is over. `ranks`: the create
/// ranks to ask each host for.
AskedStacks ask_stacks(Context& context, const std::string& mesh,
                       const std::map<HostAddr, RankSet>& ranks, bool is_kernel_only,
                       std::chrono::milliseconds limit);

/// The live ranks of a mesh, by host.
std::map<HostAddr, RankSet> live_ranks_by_host(const std::vector<RankReport>& ranks,
                                               const RankSet& meant);

}  // namespace meshbus::cli
