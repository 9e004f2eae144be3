#include "agent/proc/runtime/rank_index.h"

namespace meshbus::mesh_proc {

const RankIndex::Table& RankIndex::make(const ProcMeshRef& mesh) {
  const std::lock_guard lock(mutex_);
  if (!tables_.empty() && tables_.back().mesh == &mesh) return tables_.back();
  auto& table = tables_.emplace_back(Table{.mesh = &mesh});
  for (std::uint64_t rank = 0; rank < mesh.num_ranks(); ++rank)
    table.ranks.emplace(mesh.proc_at(rank)->key(), rank);
  last_ = &table;
  return table;
}

std::optional<std::uint64_t> RankIndex::find(std::uint64_t proc_key) {
  const auto& mesh = world_.mesh();
  const auto* const last = last_.load();
  const auto& ranks = (last != nullptr && last->mesh == &mesh ? *last : make(mesh)).ranks;
  const auto found = ranks.find(proc_key);
  if (found == ranks.end()) return std::nullopt;
  return found->second;
}

}  // namespace meshbus::mesh_proc
