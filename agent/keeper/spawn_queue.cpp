#include "agent/keeper/spawn_queue.h"

#include <algorithm>
#include <utility>

namespace meshbus::keeper {

std::vector<std::uint64_t> SpawnQueue::add(os::SpawnBatch batch,
                                           const std::function<bool(std::uint64_t)>& is_known) {
  const auto prepared = std::make_shared<const PreparedSpec>(std::move(batch.shared));
  std::vector<std::uint64_t> too_late;
  QueuedProcess* process = nullptr;  // of the proc before, when that one is new
  for (os::ProcSpec& proc : batch.procs) {
    if (proc.place == 0) process = nullptr;
    if (is_known(proc.id) || ids_.contains(proc.id)) continue;
    if (proc.place == 0) {
      process = &queue_.emplace_back(QueuedProcess{prepared, {}, proc.is_joinable, proc.beside});
    } else if (process == nullptr) {
      too_late.push_back(proc.id);
      continue;
    } else {
      process->is_shared = true;
    }
    ids_.insert(proc.id);
    process->procs.push_back(std::move(proc));
  }
  return too_late;
}

bool SpawnQueue::cancel(std::uint64_t id) {
  if (ids_.erase(id) == 0) return false;
  for (auto queued = queue_.begin(); queued != queue_.end(); ++queued) {
    auto& procs = queued->procs;
    const auto found = std::find_if(procs.begin(), procs.end(),
                                    [&](const os::ProcSpec& each) { return each.id == id; });
    if (found == procs.end()) continue;
    if (found == procs.begin() && procs.size() > 1)
      procs[1].bootstrap = std::move(found->bootstrap);
    procs.erase(found);
    if (procs.empty()) queue_.erase(queued);
    break;
  }
  return true;
}

std::vector<std::uint64_t> SpawnQueue::cancel_mesh(const std::string& mesh) {
  std::vector<std::uint64_t> cancelled;
  std::erase_if(queue_, [&](const QueuedProcess& queued) {
    if (queued.prepared->spec().mesh != mesh) return false;
    for (const os::ProcSpec& proc : queued.procs) cancelled.push_back(proc.id);
    return true;
  });
  for (const auto id : cancelled) ids_.erase(id);
  return cancelled;
}

QueuedProcess SpawnQueue::take() {
  QueuedProcess first = std::move(queue_.front());
  queue_.pop_front();
  for (const os::ProcSpec& proc : first.procs) ids_.erase(proc.id);
  return first;
}

void SpawnQueue::clear() {
  queue_.clear();
  ids_.clear();
}

}  // namespace meshbus::keeper
