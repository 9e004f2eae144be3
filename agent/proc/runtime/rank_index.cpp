#include "agent/proc/runtime/rank_index.h"

namespace meshbus::mesh_proc {

std::optional<std::uint64_t> RankIndex::find(std::uint64_t proc_key) {
  std::call_once(once_, [this] {
    for (std::uint64_t rank = 0; rank < mesh_.num_ranks(); ++rank)
      ranks_.emplace(mesh_.proc_at(rank)->key(), rank);
  });
  const auto found = ranks_.find(proc_key);
  if (found == ranks_.end()) return std::nullopt;
  return found->second;
}

}  // namespace meshbus::mesh_proc
