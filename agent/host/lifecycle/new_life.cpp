// Which ranks of a SpawnProcs are to be started: those that are not here, and those whose former
// life is over (docs/decisions/0019-restarts.md).
#include <string>
#include <utility>

#include "agent/host/lifecycle/mesh_procs.h"
#include "common/security/token.h"

namespace meshbus::host {

Result<void> MeshProcs::check_over(const Proc& former) const {
  const auto rank = former.rank();
  std::string what;
  if (!former.has_ended()) {
    what = "it has not ended";
  } else if (former.progress == SpawnProgress::born && !former.gone) {
    what = "processes that it has left are still being ended";
  } else if (!former.exit_reported) {
    what = "its exit report is not made yet";
  } else if (former.mesh.relaying && former.mesh.relay.has(rank)) {
    what = "what it wrote is not taken yet";
  } else {
    return {};
  }
  return fail(ErrorCode::would_block, "rank " + std::to_string(rank) + " of " + former.mesh.name +
                                          ": its former life is not over: " + what);
}

Proc* MeshProcs::begin_life(Proc& former, const std::shared_ptr<const Assignment>& assignment) {
  freed_slots_.push_back(std::exchange(former.slot, 0));
  Mesh& mesh = former.mesh;
  Proc* proc = table_.add_life(former, assignment, random_u64(), tail_);
  if (proc == nullptr || !mesh.relaying) return proc;
  for (const OutputPipe* pipe : {&proc->out, &proc->err})
    mesh.relay.restore(proc->rank(), pipe->stream, pipe->before.read);
  return proc;
}

Result<std::vector<std::uint64_t>> MeshProcs::find_fresh_ranks(const MeshSpec& spec,
                                                               const Mesh* mesh) const {
  std::vector<std::uint64_t> fresh;
  for (const RankBlock& block : spec.create_ranks) {
    for (std::uint64_t rank = block.begin; rank < block.end; ++rank) {
      const auto known = mesh == nullptr ? nullptr : mesh->find(rank);
      if (known == nullptr && spec.restarts > 0) {
        return fail(ErrorCode::not_exist,
                    "host " + options_.host + " knows nothing of rank " + std::to_string(rank) +
                        " of " + spec.mesh.to_string() +
                        " any more, so it cannot know that its former life is over");
      }
      if (known != nullptr && known->host_index != spec.host_index)
        return fail(ErrorCode::refused, "rank " + std::to_string(rank) + " of " + mesh->name +
                                            " exists with another host_index");
      if (known != nullptr && known->state.restarts() >= spec.restarts) continue;
      if (known != nullptr) {
        if (auto over = check_over(*known); !over) return fail(over.error());
      }
      fresh.push_back(rank);
    }
  }
  if (table_.live() + fresh.size() > most_procs_)
    return fail(ErrorCode::too_large,
                "host " + options_.host + " has " + std::to_string(table_.live()) + " procs; " +
                    std::to_string(fresh.size()) + " more would pass its limit of " +
                    std::to_string(most_procs_) +
                    " (a third of the open files it may have, at most " +
                    std::to_string(max_ranks_per_host) +
                    "); use more hosts, or raise the limit (ulimit -n)");
  return fresh;
}

}  // namespace meshbus::host
