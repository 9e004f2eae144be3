#include "agent/host/recovery/recovery.h"

#include <unistd.h>

#include <utility>

#include "common/base/log.h"
#include "wire/ledger_generated.h"
#include "wire/logs_generated.h"

namespace meshbus::host {

void Recovery::take_over(const Ledger& ledger) {
  const auto left = read_ledger(ledger);
  // With nothing to take over there is nothing to wait for.
  is_replayed_ = left.empty();
  for (const auto& [name, mesh] : left) take_over_mesh(mesh);
  take_over_drains(ledger);
  const auto live = std::to_string(parts_.table.live());
  const auto what =
      left.empty() ? "" : "; it takes " + live + " live procs over from one that has ended";
  parts_.events.add(wire::EventKind::agent_started, {}, {},
                    "host agent " + std::to_string(::getpid()) + " begins" + what);
  if (!left.empty())
    log::info("this host agent takes " + live + " procs of " + std::to_string(left.size()) +
              " meshes over from one that has ended");
}

void Recovery::take_over_drains(const Ledger& ledger) {
  for (const auto& drain : read_drains(ledger)) {
    // This agent does not answer the requester of the drain, which knows that the other agent has
    // ended and may ask again.
    const StopOrder stop{.reason = drain.reason,
                         .requester = drain.requester,
                         .grace = std::chrono::milliseconds(drain.grace_ms)};
    const auto started = parts_.drains.start({.scope = {.owner = drain.owner, .mesh = drain.mesh},
                                              .stop = stop,
                                              .in_flight = drain.in_flight,
                                              .hold = drain.hold},
                                             nullptr);
    if (!started)
      log::error("a drain of the agent before this one is lost: " + started.error().to_string());
  }
}

void Recovery::take_over_mesh(const LeftMesh& left) {
  Mesh* mesh = nullptr;
  LogFile::PartsByName parts;
  for (const auto& request : left.requests) {
    const auto* spawn = flatbuffers::GetRoot<wire::LedgerEntry>(request.data())->spawn();
    auto spec = parse_spawn(*spawn, address_);
    if (!spec) {
      log::error("a mesh of the agent before this one cannot be taken over: " +
                 spec.error().to_string());
      continue;
    }
    const auto assignment = parts_.spawns.make_assignment(*spec);
    if (mesh != nullptr && spec->revision > mesh->spec.revision) mesh->resize(spec->layout());
    if (mesh == nullptr) {
      mesh = &restore_mesh(std::move(*spec), left);
      const auto& directory = mesh->output.log_directory;
      if (!directory.empty()) parts = LogFile::find_parts(directory);
    }
    mesh->requests.push_back(request);
    add_bindings(flatbuffers::GetRoot<wire::LedgerEntry>(request.data())->bindings(),
                 mesh->bindings);
    if (restore_ranks(*mesh, left, assignment, parts)) parts_.launches.limit(assignment);
  }
  if (mesh == nullptr) return;
  if (left.state && left.state->layout) {
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(wire::MeshLayout::Pack(builder, left.state->layout.get()));
    const auto layout =
        from_wire(*flatbuffers::GetRoot<wire::MeshLayout>(builder.GetBufferPointer()));
    if (layout && layout->revision >= mesh->spec.revision) mesh->resize(*layout);
  }
  parts_.owners.arm(*mesh);
  for (const auto& [rank, proc] : mesh->procs) parts_.ending.resume(*proc);
}

Mesh& Recovery::restore_mesh(MeshSpec spec, const LeftMesh& left) {
  const auto new_owner = left.state ? ProcId::parse(left.state->owner)
                                    : fail(ErrorCode::not_exist, "the owner is the first one");
  if (left.state && (new_owner || left.state->lease_ms != 0))
    spec.lease = std::chrono::milliseconds(left.state->lease_ms);
  Mesh& mesh = parts_.table.add_mesh(std::move(spec), parts_.reactor.now());
  const bool is_handed_over = new_owner && !left.state->handed_by.empty();
  if (left.state) mesh.ownership.identify(left.state->owner_incarnation);
  if (is_handed_over) {
    mesh.ownership.restore_handover(*new_owner, left.state->handed_by, left.state->loss);
  } else if (new_owner) {
    mesh.ownership.restore_move(*new_owner);
  }
  if (left.state && left.state->owner_gone) mesh.ownership.restore_gone();
  if (left.state && left.state->restarts) {
    mesh.ownership.keep_restarts(*left.state->restarts);
    if (left.state->restarts->over) (void)mesh.ownership.end_restarts();
  }
  if (left.state) mesh.ownership.restore_stopped(left.state->stopped);
  if (auto directory = parts_.spawns.find_log_directory(mesh.name)) {
    mesh.output.log_directory = std::move(*directory);
  } else {
    log::warn("mesh " + mesh.name +
              ": what it writes from now on is in no file: " + directory.error().to_string());
  }
  const bool is_streaming = mesh.spec.output == wire::OutputMode::stream;
  if (is_streaming && !mesh.ownership.is_gone() && !is_handed_over)
    parts_.outputs.start_relaying(mesh);
  for (const auto& text : left.state ? left.state->subscribers : std::vector<std::string>()) {
    if (const auto subscriber = ProcId::parse(text)) mesh.subscribers.emplace(text, *subscriber);
  }
  return mesh;
}

bool Recovery::restore_ranks(Mesh& mesh, const LeftMesh& left,
                             const std::shared_ptr<const Assignment>& assignment,
                             const LogFile::PartsByName& parts) {
  bool is_starting = false;
  const auto now = parts_.reactor.now();
  for (const RankBlock& block : assignment->spec.create_ranks) {
    for (auto known = left.procs.lower_bound(block.begin);
         known != left.procs.end() && known->first < block.end; ++known) {
      if (mesh.procs.contains(known->first)) continue;  // an earlier request started it
      Proc* proc = parts_.table.restore_proc(mesh, assignment, known->second, parts_.spawns.tail());
      if (proc == nullptr) continue;
      proc->launch.on_taken_over(now);
      parts_.outputs.take_over(*proc, parts);
      is_starting = is_starting || proc->state.state() < wire::ProcState::ready;
      if (!proc->has_ended()) continue;
      parts_.table.on_ended(*proc);
      if (!known->second.exit_report) continue;
      proc->exit.set_report(std::make_unique<wire::ExitReportT>(*known->second.exit_report));
      parts_.table.remember(*proc, now);
    }
  }
  return is_starting;
}

void Recovery::on_replayed() {
  if (std::exchange(is_replayed_, true)) return;
  for (Proc* proc : parts_.table.live_procs()) {
    const bool has_pipes = proc->output.out.fd || proc->output.err.fd || proc->output.is_ended;
    if (proc->launch.is_queued()) {
      parts_.spawns.resume(*proc);  // perhaps asked for before, and under way: the keeper knows
    } else if (proc->launch.is_born() && !has_pipes) {
      log::error("rank " + std::to_string(proc->rank()) + " of " + proc->mesh.name +
                 " is unknown to the keeper");
      proc->exit.set_empty();
      parts_.ending.fail(
          *proc, {.code = wire::ErrorCode::internal,
                  .text = "lost: the keeper of host " + address_.to_string() + " does not know it",
                  .cause = wire::Cause::lost});
    }
  }
}

}  // namespace meshbus::host
