#include "agent/host/model/proc_table.h"

#include <algorithm>
#include <utility>

#include "common/wire/rank_state.h"
#include "wire/ledger_generated.h"

namespace meshbus::host {
namespace {

StreamOffsets to_offsets(const wire::LedgerStream& stream) {
  return {.read = stream.length(), .file = stream.file()};
}

void restore_output(const wire::LedgerProcT& known, ProcOutput& output) {
  output.slot = known.slot;
  if (known.out_before) output.out.before = to_offsets(*known.out_before);
  if (known.err_before) output.err.before = to_offsets(*known.err_before);
  output.out.at = known.out ? to_offsets(*known.out) : output.out.before;
  output.err.at = known.err ? to_offsets(*known.err) : output.err.before;
}

SpawnProgress progress_of(const wire::LedgerProcT& known) {
  if (known.never_born) return SpawnProgress::none;
  return known.state->pid() != 0 ? SpawnProgress::born : SpawnProgress::queued;
}

StopOrder order_of(const wire::LedgerProcT& known) {
  StopOrder order{.reason = known.stop_reason, .requester = known.stopped_by};
  // An older agent did not write the cause down.
  if (known.stop_cause != wire::Cause::none) order.cause = known.stop_cause;
  order.because = known.because;
  return order;
}

std::optional<Failure> failure_of(const wire::LedgerProcT& known) {
  if (!known.failure) return std::nullopt;
  return Failure{.code = known.failure->code,
                 .os_error = known.failure->os_error,
                 .text = known.failure->text,
                 .cause = known.failure->cause};
}

}  // namespace

Mesh* ProcTable::find_mesh(std::string_view name) const {
  const auto found = meshes_.find(name);
  return found == meshes_.end() ? nullptr : found->second.get();
}

Proc* ProcTable::find_id(std::uint64_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

Proc* ProcTable::find_key(std::uint64_t key) const {
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
  const ProcState first(rank, incarnation);
  const auto restarts = assignment->spec.restarts;
  // The attempts before it were on another host.
  const ProcState state = restarts == 0 ? first : ProcState(first, incarnation, restarts);
  Proc* proc = insert(std::make_unique<Proc>(mesh, assignment, state, next_id_, tail));
  if (proc != nullptr) ++counts_.spawned;
  return proc;
}

Proc* ProcTable::restart_proc(Proc& former, const std::shared_ptr<const Assignment>& assignment,
                              std::uint64_t incarnation, LineTail::Limits tail) {
  if (by_key_.contains(former.key)) return nullptr;
  const ProcState state(former.state, incarnation, assignment->spec.restarts);
  auto next = std::make_unique<Proc>(former.mesh, assignment, state, next_id_, tail);
  next->output.continue_from(former.output);
  remove(former);
  ++counts_.restarted;
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
  proc->launch.restore(known.launch.get(), known.launch_told, known.said_ready, progress_of(known));
  proc->stop.restore(order_of(known), known.held_signals, known.sent_signals);
  if (known.stop) proc->stop.begin(Termination(*known.stop));
  proc->exit.restore(failure_of(known), known.exit_reported, known.gone);
  restore_output(known, proc->output);
  if (known.input_closed && proc->input.state == InputPipe::State::open)
    proc->input.state = InputPipe::State::closed;
  if (!proc->launch.is_queued() || proc->has_ended()) proc->launch.release_assignment();
  return proc;
}

void ProcTable::touch(Proc& proc) {
  proc.mesh.statuses.reset();
  if (!std::exchange(proc.is_touched, true)) touched_.procs.push_back(&proc);
}

void ProcTable::touch(Mesh& mesh) {
  may_forget_meshes_ = true;
  if (!std::exchange(mesh.is_touched, true)) touched_.meshes.push_back(&mesh);
}

ProcTable::Touched ProcTable::take_touched() {
  for (Proc* proc : touched_.procs) proc->is_touched = false;
  for (Mesh* mesh : touched_.meshes) mesh->is_touched = false;
  return std::exchange(touched_, {});
}

void ProcTable::publish(Proc& proc) {
  proc.mesh.updates.add(proc.state.to_wire());
  const auto state = proc.state.state();
  const bool are_times_final = state == wire::ProcState::ready || proc.has_ended();
  if (are_times_final && proc.launch.mark_told()) proc.mesh.updates.add(proc.launch.times());
  touch(proc);
  mark_changed(proc.mesh);
}

void ProcTable::publish(Proc& proc, const wire::RankTrouble& trouble) {
  proc.mesh.updates.add(trouble);
  if (proc.stuck != nullptr) proc.mesh.updates.add(*proc.stuck);
  mark_changed(proc.mesh);
}

void ProcTable::publish(Proc& proc, std::unique_ptr<wire::ExitReportT> exit_report,
                        Reactor::Time now) {
  proc.mesh.updates.add(*exit_report);
  counts_.add_end(exit_report->cause, is_failure(proc.state.to_wire()));
  proc.exit.set_report(std::move(exit_report));
  remember(proc, now);
  touch(proc);
  mark_changed(proc.mesh);
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
    if (Proc* proc = mesh->find(record->rank); proc != nullptr) {
      proc->exit.forget_report();
      proc->output.shrink(0);
    }
    --mesh->remembered;
    may_forget_meshes_ = true;
  }
  if (!may_forget_meshes_) return;
  may_forget_meshes_ = false;
  std::erase_if(meshes_, [&](const auto& entry) {
    Mesh& mesh = *entry.second;
    if (mesh.live > 0 || mesh.remembered > 0) return false;
    // Its owner may still restart ranks here, whose states it then asks for. (The lease bounds it.)
    if (!mesh.ownership.handed_by().empty() && mesh.ownership.may_restart()) return false;
    for (const auto& [rank, proc] : mesh.procs) {
      if (proc->is_over()) continue;
      may_forget_meshes_ = true;  // its descendants are still being ended: look again
      return false;
    }
    on_forgotten(mesh);
    std::erase(touched_.meshes, &mesh);
    std::erase_if(touched_.procs, [&](const Proc* proc) { return &proc->mesh == &mesh; });
    touched_.forgotten.push_back(mesh.name);
    changed_.erase(&mesh);
    for (const auto& [rank, proc] : mesh.procs) by_id_.erase(proc->id);
    return true;
  });
}

}  // namespace meshbus::host
