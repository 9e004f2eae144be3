// What MeshProcs does with the procs of an agent that has died
// (docs/decisions/0009-a-new-agent.md).
#include <unistd.h>

#include <csignal>

#include "agent/host/lifecycle/mesh_procs.h"
#include "common/base/log.h"
#include "wire/ledger_generated.h"
#include "wire/logs_generated.h"

namespace meshbus::host {

void MeshProcs::take_over() {
  const auto left = read_ledger(ledger_.ledger());
  const auto drains = read_drains(ledger_.ledger());
  // With nothing to take over there is nothing to wait for.
  is_replayed_ = left.empty();
  for (const auto& [name, mesh] : left) take_over(mesh);
  for (const auto& drain : drains) {
    // Who asked for it is not answered by this agent; it is told that the other one has ended, and
    // may ask again.
    const StopOrder stop{.reason = drain.reason,
                         .requester = drain.requester,
                         .grace = std::chrono::milliseconds(drain.grace_ms)};
    const auto started = drains_.start({.scope = {.owner = drain.owner, .mesh = drain.mesh},
                                        .stop = stop,
                                        .in_flight = drain.in_flight,
                                        .hold = drain.hold},
                                       nullptr);
    if (!started)
      log::error("a drain of the agent before this one is lost: " + started.error().to_string());
  }
  book_.add(wire::EventKind::agent_started, {}, {},
            "host agent " + std::to_string(::getpid()) + " begins" +
                (left.empty() ? ""
                              : "; it takes " + std::to_string(table_.live()) +
                                    " live procs over from one that has ended"));
  if (!left.empty())
    log::info("this host agent takes " + std::to_string(table_.live()) + " procs of " +
              std::to_string(left.size()) + " meshes over from one that has ended");
}

void MeshProcs::take_over(const LeftMesh& left) {
  Mesh* mesh = nullptr;
  LogFile::Aside aside;
  for (const auto& request : left.requests) {
    const auto* spawn = flatbuffers::GetRoot<wire::LedgerEntry>(request.data())->spawn();
    auto spec = parse_spawn(*spawn, options_.address);
    if (!spec) {
      log::error("a mesh of the agent before this one cannot be taken over: " +
                 spec.error().to_string());
      continue;
    }
    const auto assignment = std::make_shared<const Assignment>(
        Assignment{*spec, shared_environment(*spec, options_.environment)});
    if (mesh == nullptr) {
      const auto new_owner = left.state ? ProcId::parse(left.state->owner)
                                        : fail(ErrorCode::not_exist, "it is the first one");
      if (new_owner) spec->owner = *new_owner;
      if (left.state && (new_owner || left.state->lease_ms != 0))
        spec->lease = std::chrono::milliseconds(left.state->lease_ms);
      mesh = &table_.add_mesh(std::move(*spec), reactor_.now());
      mesh->owner_gone = left.state && left.state->owner_gone;
      if (new_owner) {
        mesh->handed_by = left.state->handed_by;
        mesh->loss = left.state->loss;
      }
      if (auto directory = find_log_directory(mesh->name)) {
        mesh->log_directory = std::move(*directory);
        if (!mesh->log_directory.empty()) aside = LogFile::find_aside(mesh->log_directory);
      } else {
        log::warn("mesh " + mesh->name +
                  ": what it writes from now on is in no file: " + directory.error().to_string());
      }
      mesh->relaying =
          mesh->spec.output == wire::OutputMode::stream && !mesh->owner_gone && !new_owner;
      if (mesh->relaying) relaying_.insert(mesh);
      for (const auto& text : left.state ? left.state->subscribers : std::vector<std::string>()) {
        if (const auto subscriber = ProcId::parse(text))
          mesh->subscribers.emplace(text, *subscriber);
      }
    }
    mesh->requests.push_back(request);
    bool is_starting = false;
    for (const RankBlock& block : assignment->spec.create_ranks) {
      for (auto known = left.procs.lower_bound(block.begin);
           known != left.procs.end() && known->first < block.end; ++known) {
        if (mesh->procs.contains(known->first)) continue;  // of an earlier request
        Proc* proc = table_.restore_proc(*mesh, assignment, known->second, tail_);
        if (proc == nullptr) continue;
        proc->asked = reactor_.now();
        spool_.keep_slot(proc->slot);
        outputs_.take_over(*proc, aside);
        is_starting = is_starting || proc->state.state() < wire::ProcState::ready;
        if (!proc->has_ended()) continue;
        table_.on_ended(*proc);
        if (!known->second.exit_report) continue;
        proc->exit_report = std::make_unique<wire::ExitReportT>(*known->second.exit_report);
        table_.remember(*proc, reactor_.now());
      }
    }
    if (is_starting) arm_ready(assignment);
  }
  if (mesh == nullptr) return;
  if (mesh->live > 0) arm_lease(*mesh);
  for (const auto& [rank, proc] : mesh->procs) ending_.resume(*proc);
}

void MeshProcs::on_replayed() {
  if (std::exchange(is_replayed_, true)) return;
  for (Proc* proc : table_.live_procs()) {
    if (proc->progress == SpawnProgress::queued) {
      spawner_.add(*proc);  // perhaps asked for before, and under way: the keeper knows
    } else if (proc->progress == SpawnProgress::born && !proc->out.fd && !proc->err.fd &&
               !proc->output_ended) {
      log::error("rank " + std::to_string(proc->rank()) + " of " + proc->mesh.name +
                 " is unknown to the keeper");
      proc->gone = true;
      ending_.fail(*proc,
                   {.code = wire::ErrorCode::internal,
                    .text = "lost: the keeper of host " + options_.host + " does not know it",
                    .cause = wire::Cause::lost});
    }
  }
}

void MeshProcs::on_stray(const keeper::Birth& birth) {
  if (birth.failure) return keeper_.forget({birth.id});
  log::error("process " + std::to_string(birth.pid) +
             " belongs to nobody that this agent knows; it is killed");
  if (const auto sent = keeper_.signal({.id = birth.id, .signal = SIGKILL, .group = true}); !sent)
    log::warn("SIGKILL: " + sent.error().to_string());
}

void MeshProcs::free_slot(Proc& proc) {
  if (proc.slot == 0 || !proc.exit_reported) return;
  for (const auto stream : {wire::Stream::out, wire::Stream::err}) {
    if (proc.mesh.relaying &&
        spool_.released(proc.slot, stream) < spool_.written(proc.slot, stream))
      return;
  }
  freed_slots_.push_back(std::exchange(proc.slot, 0));
  table_.touch(proc);
}

}  // namespace meshbus::host
