#include "agent/host/model/proc_table.h"

#include <algorithm>
#include <utility>

#include "wire/ledger_generated.h"

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

Proc* ProcTable::add_proc(Mesh& mesh, const std::shared_ptr<const Assignment>& assignment,
                          std::uint64_t rank, std::uint64_t incarnation, LineTail::Limits tail) {
  return insert(
      std::make_unique<Proc>(mesh, assignment, ProcState(rank, incarnation), next_id_, tail));
}

Proc* ProcTable::add_life(Proc& former, const std::shared_ptr<const Assignment>& assignment,
                          std::uint64_t incarnation, LineTail::Limits tail) {
  if (by_key_.contains(former.key)) return nullptr;
  const ProcState state(former.state, incarnation, assignment->spec.restarts);
  auto next = std::make_unique<Proc>(former.mesh, assignment, state, next_id_, tail);
  const std::pair<OutputPipe*, const OutputPipe*> streams[] = {{&next->out, &former.out},
                                                               {&next->err, &former.err}};
  for (const auto& [to, from] : streams) {
    to->before = {.read = from->at.read, .file = from->at.file};
    to->at = to->before;
    to->tail.start_at(to->before.read);
  }
  remove(former);
  return insert(std::move(next));
}

void ProcTable::remove(Proc& proc) {
  Mesh& mesh = proc.mesh;
  if (records_.drop(mesh.name, proc.rank())) --mesh.remembered;
  std::erase(touched_.procs, &proc);
  by_id_.erase(proc.id);
  mesh.statuses.reset();
  mesh.procs.erase(proc.rank());
}

Proc* ProcTable::insert(std::unique_ptr<Proc> proc) {
  if (!by_key_.emplace(proc->key, proc.get()).second) return nullptr;
  next_id_ = std::max(next_id_, proc->id + 1);
  by_id_.emplace(proc->id, proc.get());
  ++proc->mesh.live;
  ++live_;
  proc->mesh.statuses.reset();
  return (proc->mesh.procs[proc->rank()] = std::move(proc)).get();
}

Proc* ProcTable::restore_proc(Mesh& mesh, const std::shared_ptr<const Assignment>& assignment,
                              const wire::LedgerProcT& known, LineTail::Limits tail) {
  Proc* proc =
      insert(std::make_unique<Proc>(mesh, assignment, ProcState(*known.state), known.id, tail));
  if (proc == nullptr) return nullptr;
  proc->slot = known.slot;
  if (known.launch) proc->launch = *known.launch;
  proc->launch_told = known.launch_told;
  proc->said_ready = known.said_ready;
  proc->gone = known.gone;
  proc->held_signals = known.held_signals;
  proc->sent_signals = known.sent_signals;
  proc->stopped_by = known.stopped_by;
  proc->stop_reason = known.stop_reason;
  // An older agent did not write it down.
  if (known.stop_cause != wire::Cause::none) proc->stop_cause = known.stop_cause;
  proc->because = known.because;
  if (known.stop) proc->termination.emplace(*known.stop);
  if (known.failure)
    proc->failure = Failure{known.failure->code, known.failure->os_error, known.failure->text,
                            known.failure->cause};
  if (known.never_born) {
    proc->progress = SpawnProgress::none;
  } else if (known.state->pid() != 0) {
    proc->progress = SpawnProgress::born;
  }
  if (known.input_closed && proc->input.state == InputPipe::State::open)
    proc->input.state = InputPipe::State::closed;
  proc->exit_reported = known.exit_reported;
  if (known.out_before)
    proc->out.before = {.read = known.out_before->length(), .file = known.out_before->file()};
  if (known.err_before)
    proc->err.before = {.read = known.err_before->length(), .file = known.err_before->file()};
  proc->out.at = proc->out.before;
  proc->err.at = proc->err.before;
  if (known.out) proc->out.at = {.read = known.out->length(), .file = known.out->file()};
  if (known.err) proc->err.at = {.read = known.err->length(), .file = known.err->file()};
  if (proc->progress != SpawnProgress::queued || proc->has_ended()) proc->assignment.reset();
  return proc;
}

void ProcTable::touch(Proc& proc) {
  proc.mesh.statuses.reset();
  if (!std::exchange(proc.is_touched, true)) touched_.procs.push_back(&proc);
}

void ProcTable::touch(Mesh& mesh) {
  if (!std::exchange(mesh.is_touched, true)) touched_.meshes.push_back(&mesh);
}

ProcTable::Touched ProcTable::take_touched() {
  for (Proc* proc : touched_.procs) proc->is_touched = false;
  for (Mesh* mesh : touched_.meshes) mesh->is_touched = false;
  return std::exchange(touched_, {});
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
      proc.exit_report.reset();
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
      if (proc->exit_reported && (proc->gone || proc->progress != SpawnProgress::born)) continue;
      may_forget_meshes_ = true;  // its descendants are still being ended: look again
      return false;
    }
    on_forgotten(mesh);
    std::erase(touched_.meshes, &mesh);
    std::erase_if(touched_.procs, [&](const Proc* proc) { return &proc->mesh == &mesh; });
    touched_.forgotten.push_back(mesh.name);
    for (const auto& [rank, proc] : mesh.procs) by_id_.erase(proc->id);
    return true;
  });
}

}  // namespace meshbus::host
