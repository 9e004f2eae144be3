#include "cli/support/unheard_ranks.h"

#include <algorithm>
#include <set>

namespace meshbus::cli {

std::vector<UnheardRanks> unheard_ranks(const ReachedHosts& hosts, const MeantRanks& meant) {
  std::set<std::uint64_t> known;
  for (const auto& rank : meant.mesh->ranks) known.insert(rank.rank);
  const auto answered = hosts.answered();
  std::vector<UnheardRanks> unheard;
  for (const auto& host : std::set<HostAddr>(meant.mesh->hosts.begin(), meant.mesh->hosts.end())) {
    std::vector<std::uint64_t> missing;
    for (const auto& block : ranks_on(meant, host)) {
      for (auto rank = block.begin; rank < block.end; ++rank) {
        if (!known.contains(rank)) missing.push_back(rank);
      }
    }
    if (!missing.empty())
      unheard.push_back({host, to_rank_set(missing),
                         std::find(answered.begin(), answered.end(), host) != answered.end()});
  }
  return unheard;
}

}  // namespace meshbus::cli
