#include "agent/host/updates/mesh_report.h"

#include <algorithm>
#include <utility>

#include "common/wire/wire_region.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {
namespace {

/// About the size of a table, with its vector offsets and length fields.
constexpr std::size_t kTableBytes = 160;
/// A command is cut for people: a script that was given as an argument would crowd out other
/// meshes.
constexpr std::size_t kCommandBytes = 512;
/// About the most that the name of a handler takes.
constexpr std::size_t kHandlerBytes = 128;
/// The most that a list tells of one mesh: ranks of one host mostly fail for one reason.
constexpr std::size_t kListedFailures = 64;

std::size_t size_of(const wire::ExitReportT& exit_report, bool with_tail) {
  return kTableBytes + exit_report.reason.size() + exit_report.stopped_by.size() +
         exit_report.stop_reason.size() + (with_tail ? exit_report.stderr_tail.size() : 0);
}

std::size_t size_of_ranks(const wire::MeshStateT& state) {
  return state.ranks.size() * sizeof(wire::RankState) +
         state.troubles.size() * sizeof(wire::RankTrouble) +
         state.descendants.size() * sizeof(std::uint64_t) +
         state.stuck.size() * (kTableBytes + kHandlerBytes);
}

void add_ranks(const Mesh& mesh, wire::MeshStateT& state) {
  state.ranks.reserve(mesh.procs.size());
  for (const auto& [rank, proc] : mesh.procs) {
    if (!mesh.has(rank)) break;
    state.ranks.push_back(proc->state.to_wire());
    if (proc->launch.is_born() && proc->exit.end() && !proc->exit.is_empty())
      state.descendants.push_back(rank);
    if (!is_in_trouble(*proc)) continue;
    state.troubles.push_back(proc->trouble);
    if (proc->stuck != nullptr)
      state.stuck.push_back(std::make_unique<wire::StuckHandlerT>(*proc->stuck));
  }
}

/// Why ranks have failed, which their states do not say; of as many as there is room for.
void add_failures(const Mesh& mesh, wire::MeshStateT& state, std::size_t& used, std::size_t bytes) {
  for (const auto& [rank, proc] : mesh.procs) {
    const auto* report = proc->exit.report();
    if (report == nullptr || !mesh.has(rank) || proc->state.state() != wire::ProcState::failed)
      continue;
    const auto size = size_of(*report, /*with_tail=*/false);
    if (state.exit_reports.size() == kListedFailures || used + size > bytes) return;
    used += size;
    auto& copy = *state.exit_reports.emplace_back(std::make_unique<wire::ExitReportT>(*report));
    copy.stderr_tail.clear();
  }
}

/// The usage of live ranks; of as many as there is room for.
void add_usage(const Mesh& mesh, wire::MeshStateT& state, std::size_t& used, std::size_t bytes) {
  for (const auto& [rank, proc] : mesh.procs) {
    if (proc->has_ended() || proc->sample.seen.sampled_ns() == 0) continue;
    if (used + sizeof(wire::RankUsage) > bytes) return;
    used += sizeof(wire::RankUsage);
    state.usage.push_back(proc->sample.seen);
  }
}

}  // namespace

bool is_in_trouble(const Proc& proc) {
  return proc.trouble.trouble() != wire::Trouble::none &&
         proc.state.state() == wire::ProcState::ready;
}

wire::MeshStateT make_mesh_head(const Mesh& mesh) {
  wire::MeshStateT state;
  state.mesh = mesh.name;
  state.region = to_wire(mesh.spec.region);
  for (const auto& host : mesh.spec.hosts) state.hosts.push_back(host.to_string());
  state.host_index = mesh.spec.host_index;
  state.revision = mesh.spec.revision;
  state.owner = mesh.ownership.owner().to_string();
  state.ownership = make_ownership(mesh.ownership);
  state.kind = mesh.spec.kind;
  for (const auto& argument : mesh.spec.command.arguments) {
    if (state.command.size() > kCommandBytes) break;
    state.command += (state.command.empty() ? "" : " ") + argument.substr(0, kCommandBytes);
  }
  if (state.command.size() > kCommandBytes)
    state.command = state.command.substr(0, kCommandBytes) + "...";
  return state;
}

std::size_t size_of(const wire::MeshStateT& state) {
  std::size_t bytes =
      2 * kTableBytes + state.mesh.size() + 2 * state.owner.size() + state.command.size();
  for (const auto& host : state.hosts) bytes += host.size() + 16;
  for (const auto& label : state.region->labels) bytes += label.size() + 32;
  const auto* ownership = state.ownership.get();
  if (ownership != nullptr) bytes += ownership->stopped.size() * sizeof(wire::RankInterval);
  if (ownership != nullptr && ownership->restarts)
    bytes += kTableBytes + ownership->restarts->used.size() * sizeof(wire::RestartUse) +
             ownership->restarts->times.size() * sizeof(wire::RestartTime) +
             ownership->restarts->begun.size() * sizeof(wire::RestartRun);
  return bytes;
}

std::unique_ptr<wire::OwnershipT> make_ownership(const MeshOwnership& ownership) {
  auto wire = std::make_unique<wire::OwnershipT>();
  wire->owner = ownership.owner().to_string();
  wire->lease_ms = static_cast<std::uint32_t>(ownership.lease().length().count());
  wire->loss = ownership.loss();
  wire->gone = ownership.is_gone();
  wire->may_restart = ownership.may_restart();
  wire->stopped = ownership.stopped();
  wire->incarnation = ownership.incarnation();
  if (ownership.restarts())
    wire->restarts = std::make_unique<wire::RestartPlanT>(*ownership.restarts());
  return wire;
}

wire::MeshStateT make_mesh_state(const Mesh& mesh, std::size_t bytes,
                                 std::vector<const Proc*>* later, bool with_usage) {
  wire::MeshStateT state = make_mesh_head(mesh);
  add_ranks(mesh, state);
  std::size_t used = size_of(state) + size_of_ranks(state);
  bool is_full = false;
  for (const auto& [rank, proc] : mesh.procs) {
    const auto* report = proc->exit.report();
    if (report == nullptr || !mesh.has(rank)) continue;
    const bool with_tail = used + size_of(*report, true) <= bytes;
    const auto size = size_of(*report, with_tail);
    is_full = is_full || used + size > bytes;
    if (!with_tail || is_full) {
      ++state.cut;
      if (later != nullptr) later->push_back(proc.get());
      if (is_full || later != nullptr) continue;
    }
    used += size;
    state.exit_reports.push_back(std::make_unique<wire::ExitReportT>(*report));
    if (!with_tail) state.exit_reports.back()->stderr_tail.clear();
  }
  if (used + mesh.procs.size() * sizeof(wire::LaunchTimes) <= bytes) {
    used += mesh.procs.size() * sizeof(wire::LaunchTimes);
    state.launch.reserve(mesh.procs.size());
    for (const auto& [rank, proc] : mesh.procs) {
      if (mesh.has(rank)) state.launch.push_back(proc->launch.times());
    }
  }
  if (with_usage) add_usage(mesh, state, used, bytes);
  return state;
}

wire::MeshListT make_mesh_list(const ProcTable::Meshes& meshes, const std::string& after,
                               const std::string& host, std::size_t bytes, bool with_usage) {
  wire::MeshListT list;
  list.host = host;
  list.after = after;
  std::size_t used = kTableBytes + host.size() + after.size();
  for (auto entry = meshes.upper_bound(after); entry != meshes.end(); ++entry) {
    const Mesh& mesh = *entry->second;
    if (mesh.is_left()) continue;
    wire::MeshStateT state = make_mesh_head(mesh);
    const auto head = size_of(state);
    const bool is_first = list.meshes.empty();
    add_ranks(mesh, state);
    const auto ranks = size_of_ranks(state);
    if (used + head + ranks <= bytes) {
      used += ranks;
      // States of other meshes come first: half of the room is theirs.
      add_failures(mesh, state, used, bytes / 2 - std::min(bytes / 2, head));
      if (with_usage) add_usage(mesh, state, used, bytes - std::min(bytes, head));
    } else if (is_first) {
      state.ranks.clear();
      state.troubles.clear();
      state.stuck.clear();
    } else {
      list.more = true;
      break;
    }
    used += head;
    list.meshes.push_back(std::make_unique<wire::MeshStateT>(std::move(state)));
  }
  return list;
}

std::vector<wire::StateChangedT> make_changes(const std::string& mesh, const std::string& host,
                                              HostUpdate update, std::size_t bytes) {
  std::vector<wire::StateChangedT> messages;
  std::size_t used = bytes;
  const auto make_room = [&](std::size_t size) {
    if (messages.empty() || used + size > bytes) {
      messages.emplace_back();
      messages.back().mesh = mesh;
      messages.back().host = host;
      used = kTableBytes + mesh.size() + host.size();
    }
    used += size;
  };
  for (const auto& rank : update.ranks) {
    make_room(sizeof(wire::RankState));
    messages.back().ranks.push_back(rank);
  }
  for (const auto& trouble : update.troubles) {
    const auto handler = std::find_if(
        update.stuck.begin(), update.stuck.end(),
        [&](const auto& stuck) { return stuck != nullptr && stuck->rank == trouble.rank(); });
    const bool is_stuck =
        trouble.trouble() == wire::Trouble::stuck && handler != update.stuck.end();
    make_room(sizeof(wire::RankTrouble) + (is_stuck ? kTableBytes + kHandlerBytes : 0));
    messages.back().troubles.push_back(trouble);
    if (is_stuck) messages.back().stuck.push_back(std::move(*handler));
  }
  for (const auto& times : update.launch) {
    make_room(sizeof(wire::LaunchTimes));
    messages.back().launch.push_back(times);
  }
  for (auto& exit_report : update.exit_reports) {
    make_room(size_of(*exit_report, true));
    messages.back().exit_reports.push_back(std::move(exit_report));
  }
  return messages;
}

std::vector<wire::StateChangedT> make_snapshot(const Mesh& mesh, const std::string& host) {
  HostUpdate all;
  for (const auto& [rank, proc] : mesh.procs) {
    all.ranks.push_back(proc->state.to_wire());
    if (is_in_trouble(*proc)) {
      all.troubles.push_back(proc->trouble);
      if (proc->stuck != nullptr)
        all.stuck.push_back(std::make_unique<wire::StuckHandlerT>(*proc->stuck));
    }
    if (proc->launch.is_told()) all.launch.push_back(proc->launch.times());
    if (const auto* report = proc->exit.report())
      all.exit_reports.push_back(std::make_unique<wire::ExitReportT>(*report));
  }
  auto messages = make_changes(mesh.name, host, std::move(all));
  if (!messages.empty()) messages.front().ownership = make_ownership(mesh.ownership);
  if (!messages.empty() && mesh.spec.revision != 0)
    messages.front().layout = to_wire(mesh.spec.layout());
  return messages;
}

}  // namespace meshbus::host
