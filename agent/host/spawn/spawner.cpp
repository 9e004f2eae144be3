#include "agent/host/spawn/spawner.h"

#include <csignal>

namespace meshbus::host {

std::vector<Proc*> Spawner::next_batch() {
  std::vector<Proc*> batch;
  while (!queue_.empty() && asked_.size() + batch.size() < in_flight_) {
    Proc* proc = table_.find_id(queue_.front());
    if (proc != nullptr && proc->progress == SpawnProgress::queued) {
      if (!batch.empty() && batch.front()->assignment != proc->assignment) break;
      batch.push_back(proc);
    }
    queue_.pop_front();
  }
  return batch;
}

void Spawner::pump() {
  // What all procs of a batch share (environment, program) is written, read and looked up once for each batch: not for one proc at a time.
  if (asked_.size() > in_flight_ / 2) return;
  for (auto procs = next_batch(); !procs.empty(); procs = next_batch()) {
    const Assignment& assignment = *procs.front()->assignment;
    const MeshSpec& spec = assignment.spec;
    keeper::SpawnBatch batch;
    batch.shared.program = spec.command.program;
    batch.shared.argv = spec.command.arguments;
    batch.shared.env = assignment.environment;
    batch.shared.cwd = spec.command.directory;
    batch.shared.mesh = spec.mesh.to_string();
    batch.shared.settings = spec.command.settings;
    batch.shared.parent_death_signal = parent_death_signal_ ? SIGKILL : 0;
    std::vector<Proc*> asked;
    for (Proc* proc : procs) {
      keeper::ProcSpec one;
      one.id = proc->id;
      one.env = rank_environment(spec, proc->rank(), proc->state.restarts());
      if (proc->input.state == InputPipe::State::open) one.stdin_choice = keeper::Stdio::pipe;
      if (spec.kind == wire::ProcKind::mesh) {
        auto bootstrap = bootstraps_.write(spec, proc->rank(), proc->state.to_wire().incarnation());
        if (!bootstrap) {
          on_failed_(*proc, bootstrap.error());
          continue;
        }
        one.bootstrap = std::move(*bootstrap);
      }
      batch.procs.push_back(std::move(one));
      asked.push_back(proc);
    }
    if (asked.empty()) continue;
    const auto sent = keeper_.spawn(std::move(batch));
    for (Proc* proc : asked) {
      if (sent) {
        proc->progress = SpawnProgress::asked;
        asked_.insert(proc->id);
      } else {
        on_failed_(*proc, sent.error());
      }
    }
  }
}

}  // namespace meshbus::host
