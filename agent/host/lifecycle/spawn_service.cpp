#include "agent/host/lifecycle/spawn_service.h"

#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "agent/host/model/real_time.h"
#include "common/security/token.h"
#include "common/wire/control.h"

namespace meshbus::host {
namespace {

/// Each proc takes up to three pipes, more while it is born, and a descriptor that does not fit any
/// more would cost us the connection to the keeper, and with it all procs.
std::size_t find_most_procs() {
  constexpr rlim_t kOthers = 1024;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMostRanksPerHost;
  const rlim_t free = limit.rlim_cur - std::min(limit.rlim_cur, kOthers);
  return static_cast<std::size_t>(std::clamp<rlim_t>(free / 3, 100, kMostRanksPerHost));
}

/// How the ranks of a request are bound; none: they are not.
WireBindings bindings_of(const MeshSpec& spec, const Mesh* mesh) {
  RankBindings bindings;
  if (mesh == nullptr) return {};
  for (auto bound = mesh->bindings.lower_bound(spec.block.begin);
       bound != mesh->bindings.end() && bound->first < spec.block.end; ++bound)
    bindings.insert(*bound);
  return to_wire(bindings);
}

/// How many ranks of the mesh each of its hosts has, if it is on this machine: hosts with unix
/// sockets are. Ranks of several hosts of one mesh do not share what there is enough of.
std::vector<std::uint64_t> blocks_on_this_machine(const MeshSpec& spec) {
  std::vector<std::uint64_t> blocks(spec.hosts.size());
  const auto mesh = ProcMeshRef::make(spec.mesh, spec.hosts, spec.region.num_ranks(), spec.region);
  for (std::size_t host = 0; host < spec.hosts.size(); ++host) {
    const bool is_own = host == spec.host_index;
    const bool is_here = spec.hosts[host].transport() == Transport::unix_socket &&
                         spec.hosts[spec.host_index].transport() == Transport::unix_socket;
    if (is_own)
      blocks[host] = spec.block.size();
    else if (is_here && mesh)
      blocks[host] = mesh->block_of(host).value_or(RankBlock{}).size();
  }
  return blocks;
}

void set_layout(MeshSpec& spec, const MeshLayout& layout) {
  spec.region = layout.region;
  spec.hosts = layout.hosts;
  spec.revision = layout.revision;
}

}  // namespace

SpawnService::SpawnService(const Parts& parts, BootstrapWriter bootstraps, Options options)
    : parts_(parts),
      options_(std::move(options)),
      tail_{.lines = options_.config.count(keys::tail_lines)},
      most_procs_(find_most_procs()),
      bootstraps_(std::move(bootstraps)),
      spawner_(
          parts.table, parts.keeper, bootstraps_, parts.progress,
          options_.config.count(keys::spawn_in_flight),
          options_.config.flag(keys::parent_death_signal), [this](Proc& proc, const Error& error) {
            const auto& program = proc.mesh.spec.command.program;
            parts_.ending.fail(proc, {.code = meshbus::to_wire(error.code()),
                                      .text = "cannot start '" + program + "': " + error.detail() +
                                              " (step: request) on host " + options_.host,
                                      .cause = wire::Cause::spawn_failed});
          }) {}

Result<SpawnService::Spawned> SpawnService::spawn(MeshSpec spec, std::string entry,
                                                  const topology::Topology* topology) {
  const std::string name = spec.mesh.to_string();
  Mesh* mesh = parts_.table.find_mesh(name);
  if (mesh != nullptr) {
    if (const auto known = check_known(*mesh, spec); !known) return fail(known.error());
    // A request that was on its way while the mesh was resized: for ranks that stay.
    if (spec.revision < mesh->spec.revision) set_layout(spec, mesh->spec.layout());
  }
  const auto fresh = find_fresh_ranks(spec, mesh);
  if (!fresh) return fail(fresh.error());
  if (fresh->empty()) return Spawned{.bindings = bindings_of(spec, mesh)};
  const auto allowed = parts_.drains.check_start(name, spec.owner);
  if (!allowed) return fail(allowed.error());
  const auto kept = options_.limits.check(spec.command.settings.group);
  if (!kept) return fail(kept.error());

  const auto assignment = make_assignment(spec);
  auto bindings = plan(*assignment, mesh, topology);
  if (!bindings)
    return fail(bindings.error().within("host " + options_.host + " cannot bind ranks"));
  if (mesh == nullptr) {
    auto added = add_mesh(std::move(spec));
    if (!added) return fail(added.error());
    mesh = *added;
  } else if (spec.revision > mesh->spec.revision) {
    mesh->resize(spec.layout());
    parts_.table.touch(*mesh);
  }
  for (std::size_t i = 0; i < bindings->ranks.size(); ++i)
    mesh->bindings.emplace(assignment->spec.block.begin + i, std::move(bindings->ranks[i]));
  // A restart asks for nothing that the first request did not: the ledger has that one already,
  // unless the first attempts were on another host.
  auto bound = bindings_of(assignment->spec, mesh);
  if (assignment->spec.restarts == 0 || !assignment->spec.moved_from.empty())
    parts_.ledger.add_request(*mesh, LedgerWriter::with_bindings(std::move(entry), bound));
  const auto asked_ns = now_ns();
  std::map<std::uint32_t, std::shared_ptr<const Assignment>> assignments{
      {assignment->spec.restarts, assignment}};
  for (const auto& [rank, restarts] : *fresh) {
    auto& wanted = assignments[restarts];
    if (wanted == nullptr) {
      auto later = *assignment;
      later.spec.restarts = restarts;
      wanted = std::make_shared<const Assignment>(std::move(later));
    }
    mesh->ownership.forget_stop(rank);
    if (const auto started = start(*mesh, rank, wanted, asked_ns); !started)
      return fail(started.error());
  }
  for (const auto& [restarts, wanted] : assignments) parts_.launches.limit(wanted);
  return Spawned{
      .started = fresh->size(), .bindings = std::move(bound), .notes = std::move(bindings->notes)};
}

Result<SpawnService::Spawned> SpawnService::restart(Mesh& mesh, const std::vector<RankBlock>& ranks,
                                                    std::uint32_t restarts) {
  // A host that stands in the mesh twice has ranks of two requests.
  std::map<std::uint32_t, std::vector<RankBlock>> by_host_index;
  for (const RankBlock& block : ranks) {
    for (std::uint64_t rank = block.begin; rank < block.end; ++rank) {
      const Proc* const known = mesh.find(rank);
      if (known == nullptr)
        return fail(ErrorCode::not_exist, "host " + options_.host + " knows nothing of rank " +
                                              std::to_string(rank) + " of " + mesh.name);
      if (!mesh.has(rank))
        return fail(ErrorCode::not_exist, "mesh " + mesh.name + " has no rank " +
                                              std::to_string(rank) + " any more: it was made " +
                                              "smaller");
      if (known->state.restarts() >= restarts || mesh.ownership.is_stopped(rank)) continue;
      if (auto over = check_over(*known); !over) return fail(over.error());
      auto& blocks = by_host_index[known->host_index];
      if (!blocks.empty() && blocks.back().end == rank) {
        ++blocks.back().end;
      } else {
        blocks.push_back({rank, rank + 1});
      }
    }
  }
  Spawned all;
  for (auto& [host_index, blocks] : by_host_index) {
    auto spec = make_restart(mesh.spec, host_index, std::move(blocks), restarts);
    if (!spec) return fail(spec.error());
    if (!mesh.ownership.handed_by().empty()) spec->owner = mesh.ownership.owner();
    auto spawned = spawn(std::move(*spec), {}, nullptr);
    if (!spawned) return fail(spawned.error());
    all.started += spawned->started;
  }
  return all;
}

Result<void> SpawnService::check_layout(const Mesh& mesh, const MeshLayout& layout) const {
  if (const auto fine = check_resized(mesh.spec.layout(), layout); !fine)
    return fail(fine.error().within("mesh " + mesh.name));
  for (const auto& [rank, proc] : mesh.procs) {
    if (proc->has_ended()) continue;
    if (rank >= layout.region.num_ranks() || host_of(layout, rank) != proc->address.host())
      return fail(ErrorCode::refused, "rank " + std::to_string(rank) + " of mesh " + mesh.name +
                                          " lives on host " + options_.host +
                                          ": stop it before it is taken out of the mesh");
  }
  return {};
}

Result<bool> SpawnService::resize(Mesh& mesh, const MeshLayout& layout) {
  if (layout.revision < mesh.spec.revision) return false;
  const auto present = mesh.spec.layout();
  if (layout.revision == present.revision) {
    if (layout.region == present.region && layout.hosts == present.hosts) return true;
    return fail(ErrorCode::refused, "mesh " + mesh.name + " has another layout of revision " +
                                        std::to_string(layout.revision));
  }
  if (const auto fine = check_layout(mesh, layout); !fine) return fail(fine.error());
  mesh.resize(layout);
  mesh.statuses.reset();
  parts_.table.touch(mesh);
  return true;
}

Result<BindingPlan> SpawnService::plan(const Assignment& assignment, const Mesh* mesh,
                                       const topology::Topology* topology) const {
  const MeshSpec& spec = assignment.spec;
  if (!spec.command.binding.is_wanted()) return BindingPlan();
  if (mesh != nullptr && mesh->bindings.contains(spec.block.begin)) return BindingPlan();
  if (topology == nullptr)
    return fail(ErrorCode::refused, "nothing is known of how they were bound before");
  BindingInput input{.request = spec.command.binding,
                     .ranks = {.count = spec.block.size()},
                     .cpu_set = spec.command.settings.cpus,
                     .visible = VisibleGpus::find(assignment.environment),
                     .taken = find_taken(spec)};
  const auto blocks = blocks_on_this_machine(spec);
  for (std::size_t host = 0; host < blocks.size(); ++host) {
    if (host < spec.host_index) input.ranks.first += blocks[host];
    input.ranks.total += blocks[host];
  }
  return plan_binding(*topology, input);
}

TakenPlaces SpawnService::find_taken(const MeshSpec& spec) const {
  TakenPlaces taken;
  for (const Proc* proc : parts_.table.live_procs()) {
    const bool is_same = proc->mesh.name == spec.mesh.to_string() &&
                         spec.block.begin <= proc->rank() && proc->rank() < spec.block.end;
    const auto bound = proc->mesh.bindings.find(proc->rank());
    if (is_same || bound == proc->mesh.bindings.end()) continue;
    const auto& cpus = bound->second.placement.cpus;
    taken.cpus.insert(cpus.begin(), cpus.end());
    if (!bound->second.gpu.empty()) taken.gpus.insert(bound->second.gpu);
  }
  return taken;
}

std::shared_ptr<const Assignment> SpawnService::make_assignment(const MeshSpec& spec) const {
  return std::make_shared<const Assignment>(
      Assignment{spec, shared_environment(spec, options_.environment)});
}

Result<Mesh*> SpawnService::add_mesh(MeshSpec spec) {
  auto log_directory = find_log_directory(spec.mesh.to_string());
  if (!log_directory) return fail(log_directory.error());
  Mesh& mesh = parts_.table.add_mesh(std::move(spec), parts_.reactor.now());
  mesh.output.log_directory = std::move(*log_directory);
  if (mesh.spec.output == wire::OutputMode::stream) parts_.outputs.start_relaying(mesh);
  return &mesh;
}

Result<std::string> SpawnService::find_log_directory(const std::string& mesh) const {
  const auto& directory = options_.config.path(keys::logs_directory);
  if (directory.empty()) return std::string();
  return make_log_directory(directory, mesh);
}

Result<void> SpawnService::check_known(const Mesh& mesh, const MeshSpec& spec) const {
  // An order to restart ranks names the owner at the address that it had at first. As long as a
  // handover may not be done on all hosts, the owner before restarts them.
  const auto& ownership = mesh.ownership;
  const auto before = ProcId::parse(ownership.handed_by());
  const bool is_before =
      ownership.is_unconfirmed() && before && spec.owner.name() == before->name();
  const auto& later = ownership.handed_by().empty() ? mesh.spec.owner : ownership.owner();
  const auto& first = is_before ? spec.owner : later;
  if (const auto field = find_difference(mesh.spec, spec, first))
    return fail(ErrorCode::refused, "mesh " + mesh.name + " exists with another " +
                                        std::string(*field) + "; use another name, or the same " +
                                        std::string(*field));
  if (mesh.ownership.is_gone())
    return fail(ErrorCode::refused, "mesh " + mesh.name + " is being stopped: its owner is gone");
  if (spec.revision < mesh.spec.revision && spec.block.end > mesh.spec.region.num_ranks())
    return fail(ErrorCode::refused, "mesh " + mesh.name + " has been made smaller meanwhile");
  if (spec.revision <= mesh.spec.revision) return {};
  if (mesh.ownership.is_ended())
    return fail(ErrorCode::refused,
                "mesh " + mesh.name + " was stopped; it does not grow any more");
  return check_layout(mesh, spec.layout());
}

Result<void> SpawnService::start(Mesh& mesh, std::uint64_t rank,
                                 const std::shared_ptr<const Assignment>& assignment,
                                 std::int64_t asked_ns) {
  Proc* const former = mesh.find(rank);
  Proc* proc = former == nullptr
                   ? parts_.table.add_proc(mesh, assignment, rank, random_u64(), tail_)
                   : restart_proc(*former, assignment);
  if (proc == nullptr)
    return fail(ErrorCode::refused, "rank " + std::to_string(rank) + " of " + mesh.name +
                                        " has the same address key as another proc here; use "
                                        "another name");
  parts_.slots.take(*proc);
  proc->launch.on_requested(parts_.reactor.now(), asked_ns);
  parts_.table.publish(*proc);
  spawner_.add(*proc);
  return {};
}

Proc* SpawnService::restart_proc(Proc& former,
                                 const std::shared_ptr<const Assignment>& assignment) {
  parts_.slots.release(former);
  Proc* proc = parts_.table.restart_proc(former, assignment, random_u64(), tail_);
  if (proc != nullptr) parts_.outputs.continue_relay(*proc);
  return proc;
}

Result<void> SpawnService::check_over(const Proc& former) const {
  const auto rank = former.rank();
  std::string what;
  if (!former.has_ended()) {
    what = "it has not ended";
  } else if (former.launch.is_born() && !former.exit.is_empty()) {
    what = "processes that it has left are still being ended";
  } else if (!former.exit.is_reported()) {
    what = "its exit report is not made yet";
  } else if (former.mesh.output.is_relaying && former.mesh.output.relay.has(rank)) {
    what = "what it wrote is not taken yet";
  } else {
    return {};
  }
  return fail(ErrorCode::would_block,
              "rank " + std::to_string(rank) + " of " + former.mesh.name +
                  " cannot be restarted yet: its former incarnation is not over: " + what);
}

Result<std::vector<SpawnService::Fresh>> SpawnService::find_fresh_ranks(const MeshSpec& spec,
                                                                        const Mesh* mesh) const {
  std::vector<Fresh> fresh;
  for (const RankBlock& block : spec.create_ranks) {
    for (std::uint64_t rank = block.begin; rank < block.end; ++rank) {
      const Proc* known = mesh == nullptr ? nullptr : mesh->find(rank);
      if (known == nullptr && spec.restarts > 0 && spec.moved_from.empty())
        return fail(ErrorCode::not_exist,
                    "host " + options_.host + " knows nothing of rank " + std::to_string(rank) +
                        " of " + spec.mesh.to_string() +
                        " any more, so it cannot know that its former incarnation is over");
      if (known != nullptr && !mesh->has(rank)) {
        // The mesh had a rank of that number before, and grows again.
        if (auto over = check_over(*known); !over) return fail(over.error());
        fresh.push_back({rank, known->state.restarts() + 1});
        continue;
      }
      if (known != nullptr && known->host_index != spec.host_index)
        return fail(ErrorCode::refused, "rank " + std::to_string(rank) + " of " + mesh->name +
                                            " exists with another host_index");
      if (known != nullptr && known->state.restarts() >= spec.restarts) continue;
      if (known != nullptr && mesh->ownership.is_stopped(rank)) continue;
      if (known != nullptr) {
        if (auto over = check_over(*known); !over) return fail(over.error());
      }
      fresh.push_back({rank, spec.restarts});
    }
  }
  const auto live = parts_.table.live();
  if (live + fresh.size() > most_procs_)
    return fail(ErrorCode::too_large, "host " + options_.host + " has " + std::to_string(live) +
                                          " procs; " + std::to_string(fresh.size()) +
                                          " more would pass its limit of " +
                                          std::to_string(most_procs_) +
                                          " (a third of the open files it may have, at most " +
                                          std::to_string(kMostRanksPerHost) +
                                          "); use more hosts, or raise the limit (ulimit -n)");
  return fresh;
}

}  // namespace meshbus::host
