#include "agent/host/procs/proc_table.h"

namespace meshbus::host {

Mesh* ProcTable::find_mesh(std::string_view name) {
  const auto found = meshes_.find(name);
  return found == meshes_.end() ? nullptr : found->second.get();
}

Proc* ProcTable::find_id(std::uint64_t id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

Proc* ProcTable::find_key(std::uint64_t key) {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : found->second;
}

std::vector<Proc*> ProcTable::live_procs() const {
  std::vector<Proc*> procs;
  procs.reserve(live_);
  for (const auto& [name, mesh] : meshes_) {
    for (const auto& [rank, proc] : mesh->procs) {
      if (!proc->has_ended()) procs.push_back(proc.get());
    }
  }
  return procs;
}

Mesh& ProcTable::add_mesh(MeshSpec spec, Reactor::Time now) {
  auto mesh = std::make_unique<Mesh>(std::move(spec), now);
  return *meshes_.emplace(mesh->name, std::move(mesh)).first->second;
}

Proc* ProcTable::add_proc(Mesh& mesh, const std::shared_ptr<const Assignment>& assignment, std::uint64_t rank, std::uint64_t incarnation,
                          LineTail::Limits tail) {
  auto proc = std::make_unique<Proc>(mesh, assignment, rank, next_id_, incarnation, tail);
  if (!by_key_.emplace(proc->key, proc.get()).second) return nullptr;
  by_id_.emplace(next_id_++, proc.get());
  ++mesh.live;
  ++live_;
  return (mesh.procs[rank] = std::move(proc)).get();
}

void ProcTable::on_ended(Proc& proc) {
  by_key_.erase(proc.key);
  --proc.mesh.live;
  --live_;
}

void ProcTable::remember(Proc& proc, Reactor::Time now) {
  ++proc.mesh.remembered;
  records_.add(now, proc.mesh.name, proc.rank());
}

void ProcTable::forget_old(Reactor::Time now, const std::function<void(Mesh&)>& on_forgotten) {
  while (const auto record = records_.forget(now)) {
    Mesh* mesh = find_mesh(record->mesh);
    if (mesh == nullptr) continue;
    if (const auto found = mesh->procs.find(record->rank); found != mesh->procs.end()) {
      Proc& proc = *found->second;
      proc.certificate.reset();
      proc.out.tail.shrink(0);
      proc.err.tail.shrink(0);
    }
    --mesh->remembered;
    may_forget_meshes_ = true;
  }
  if (!may_forget_meshes_) return;
  may_forget_meshes_ = false;
  std::erase_if(meshes_, [&](const auto& entry) {
    Mesh& mesh = *entry.second;
    if (mesh.live > 0 || mesh.remembered > 0) return false;
    for (const auto& [rank, proc] : mesh.procs) {
      if (proc->certified && (proc->gone || proc->progress != SpawnProgress::born)) continue;
      may_forget_meshes_ = true;  // its descendants are still being ended: look again
      return false;
    }
    on_forgotten(mesh);
    for (const auto& [rank, proc] : mesh.procs) by_id_.erase(proc->id);
    return true;
  });
}

}  // namespace meshbus::host
