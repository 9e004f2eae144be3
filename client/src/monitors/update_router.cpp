#include "client/src/monitors/update_router.h"

#include <algorithm>
#include <utility>

#include "client/src/gateway/gateway.h"
#include "client/src/gateway/host_monitor.h"
#include "client/src/monitors/actor_monitor.h"
#include "client/src/monitors/log_feed.h"
#include "client/src/monitors/mesh_monitor.h"
#include "wire/actors_generated.h"
#include "wire/logs_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

/// The last answer of a proc that ends in order may come after the news of its end.
constexpr std::chrono::milliseconds kLastAnswerLimit{250};

}  // namespace

void UpdateRouter::handle(Dispatcher& handlers) {
  handlers
      .on<wire::StateChanged>(Role::host, std::bind_front(&UpdateRouter::on_state_changed, this))
      .on<wire::Output>(Role::host, std::bind_front(&UpdateRouter::on_output, this))
      .on<wire::Log>(Role::host, std::bind_front(&UpdateRouter::on_log, this))
      .on<wire::ActorEvent>(Role::proc, std::bind_front(&UpdateRouter::on_actor_event, this));
  execs_.handle(handlers);
  orders_.handle(handlers);
}

void UpdateRouter::add(std::shared_ptr<MeshMonitor> monitor, Reactor& reactor) {
  hosts_.add(monitor->mesh().hosts());
  // Failures are heard of here when their exit reports have come: nothing is waited for then.
  monitor->listen([this, &reactor, alive = std::weak_ptr<void>(alive_),
                   weak = std::weak_ptr(monitor)](const RankReport& rank) {
    const auto of = weak.lock();
    if (alive.expired() || of == nullptr) return false;
    if (rank.cause == Cause::host_lost && meshes_.contains(of->name())) lost_.insert(of->name());
    const auto wait = rank.is_failure() ? std::chrono::milliseconds(0) : kLastAnswerLimit;
    reactor.after(wait, [this, alive, weak, wait, attempt = rank.restarts, number = rank.rank,
                         proc = of->mesh().proc_of(rank.rank), words = rank.describe()] {
      // Questions that came later are for the next incarnation, which answers them.
      const auto still = weak.lock();
      if (wait.count() > 0 && still != nullptr && still->progress().restarts_of(number) != attempt)
        return;
      if (!alive.expired() && gateway_.bus() != nullptr && proc)
        gateway_.bus()->give_up(Destination::to(*proc), "its proc has ended: " + words);
    });
    return true;
  });
  auto name = monitor->name();
  if (monitor->options().is_plain) plain_.insert(name);
  meshes_.insert_or_assign(std::move(name),
                           FollowedMesh(std::move(monitor), gateway_.status().self()));
}

void UpdateRouter::remove(const MeshMonitor& monitor) {
  // Another handle of the same mesh may have taken its place.
  const auto found = meshes_.find(monitor.name());
  if (found != meshes_.end() && &found->second.monitor() == &monitor) {
    plain_.erase(found->first);
    lost_.erase(found->first);
    meshes_.erase(found);
  }
}

std::optional<Error> UpdateRouter::refusal_of(const Name& mesh) const {
  if (plain_.empty() || !plain_.contains(mesh.to_string())) return std::nullopt;
  return Error(ErrorCode::no_such_port,
               "the procs of " + mesh.to_string() +
                   " are plain, and plain procs take no calls; spawn programs that use the "
                   "library with ProcKind::mesh (in Python mesh=True)");
}

std::optional<Error> UpdateRouter::refusal_of(const ProcName& proc) const {
  if (plain_.empty() && lost_.empty()) return std::nullopt;
  const auto found = parse_proc_name(proc);
  if (!found) return std::nullopt;
  if (auto refusal = refusal_of(found->mesh)) return refusal;
  const auto name = found->mesh.to_string();
  const auto mesh = lost_.contains(name) ? meshes_.find(name) : meshes_.end();
  if (mesh == meshes_.end()) return std::nullopt;
  const auto end = mesh->second.monitor().progress().end_of(found->create_rank);
  // The call of a rank that is restarted waits for its next attempt.
  if (!end || end->cause != Cause::host_lost || end->is_restarting) return std::nullopt;
  return Error(ErrorCode::host_unreachable, end->describe());
}

Error UpdateRouter::explain(const ProcName& proc, Error error) const {
  if (error.code() != ErrorCode::no_such_proc) return error;
  const auto named = parse_proc_name(proc);
  const auto mesh = named ? meshes_.find(named->mesh.to_string()) : meshes_.end();
  if (mesh == meshes_.end()) return error;
  const auto end = mesh->second.monitor().progress().end_of(named->create_rank);
  return end ? Error(error.code(), error.detail() + ": " + end->describe()) : error;
}

bool UpdateRouter::is_ours(std::string_view mesh) const {
  const auto found = meshes_.find(mesh);
  return found != meshes_.end() && found->second.monitor().progress().is_ours();
}

void UpdateRouter::add(std::shared_ptr<LogFeed> feed) {
  feed->start(gateway_);
  feeds_.insert_or_assign(feed->number(), std::move(feed));
}

void UpdateRouter::remove(const LogFeed& feed) {
  feeds_.erase(feed.number());
}

void UpdateRouter::add(const std::shared_ptr<ActorMonitor>& actors,
                       const std::shared_ptr<MeshMonitor>& procs) {
  actors_.push_back(actors);
  procs->listen([this, alive = std::weak_ptr<void>(alive_),
                 weak = std::weak_ptr(actors)](const RankReport& proc) {
    if (weak.expired()) return false;
    if (!alive.expired()) on_proc_end(weak, proc);
    return true;
  });
  if (!actors->has_revival()) return;
  procs->listen_again([this, alive = std::weak_ptr<void>(alive_),
                       weak = std::weak_ptr(actors)](const RankReport& proc) {
    const auto monitor = weak.lock();
    if (monitor == nullptr) return false;
    if (alive.expired()) return true;
    monitor->on_proc_ready(proc);
    if (gateway_.bus() != nullptr) monitor->make_again(*gateway_.bus(), gateway_.status().self());
    return true;
  });
}

void UpdateRouter::remove(const ActorMonitor& actors) {
  std::erase_if(actors_, [&](const auto& one) { return one.get() == &actors; });
}

std::optional<ProcId> UpdateRouter::find_proc(std::uint64_t key) {
  for (auto& [name, mesh] : meshes_) {
    if (auto proc = mesh.find_proc(key)) return proc;
  }
  return std::nullopt;
}

bool UpdateRouter::is_needed(const HostAddr& host) const {
  return std::any_of(meshes_.begin(), meshes_.end(), [&](const auto& entry) {
    auto& monitor = entry.second.monitor();
    return monitor.progress().is_alive_on(host) || monitor.progress().is_moving_to(host) ||
           monitor.is_output_due(host);
  });
}

void UpdateRouter::resync(FollowedMesh& mesh, const HostAddr& host) {
  if (gateway_.bus() == nullptr) return;
  mesh.resync(*gateway_.bus(), gateway_.status().self(), host,
              [this, alive = std::weak_ptr<void>(alive_), name = mesh.monitor().name(), host,
               agent = hosts_.incarnation_of(host)] {
                if (alive.expired()) return;
                if (const auto followed = meshes_.find(name); followed != meshes_.end())
                  followed->second.note_synced(host, agent);
              });
}

void UpdateRouter::resync_all() {
  const auto hosts = hosts_.all();
  for (auto& [name, mesh] : meshes_) {
    for (const auto& host : hosts) resync(mesh, host);
    if (gateway_.bus() != nullptr) mesh.ask_for_output(*gateway_.bus());
  }
  for (const auto& actors : actors_)
    actors->resync(*gateway_.bus(), gateway_.status().self(), std::nullopt);
  execs_.resync_all();
}

std::vector<std::string> UpdateRouter::resync(const HostAddr& host, bool has_missed,
                                              bool is_replaced) {
  const auto agent = hosts_.incarnation_of(host);
  // Also without a silence: the agent that took an order to tell us may have been replaced before
  // we knew its incarnation.
  for (auto& [name, mesh] : meshes_) {
    if (has_missed || mesh.is_out_of_sync(host, agent)) resync(mesh, host);
  }
  std::vector<std::string> leases;
  if (!has_missed && !is_replaced) return leases;
  for (const auto& actors : actors_) {
    actors->resync(*gateway_.bus(), gateway_.status().self(), host);
    leases.push_back(actors->lease_name());
  }
  return leases;
}

void UpdateRouter::upkeep() {
  std::erase_if(meshes_, [](const auto& entry) {
    const auto& progress = entry.second.monitor().progress();
    return progress.is_abandoned() && progress.is_over();
  });
  std::erase_if(lost_, [this](const std::string& name) { return !meshes_.contains(name); });
  if (!gateway_.is_up()) return;
  for (const auto& [name, mesh] : meshes_) {
    if (mesh.monitor().should_ask_for_output()) mesh.ask_for_output(*gateway_.bus());
  }
  for (const auto& [number, feed] : feeds_) feed->on_upkeep();
  for (const auto& actors : actors_) actors->make_again(*gateway_.bus(), gateway_.status().self());
}

void UpdateRouter::lose(const HostAddr& host, const std::string& reason) {
  const bool is_proved = hosts_.has_ended(host);
  for (const auto& [name, mesh] : meshes_) mesh.monitor().lose(host, reason, is_proved);
  execs_.lose(host, reason);
}

void UpdateRouter::lose_all(const std::string& reason) {
  for (const auto& host : hosts_.all()) lose(host, reason);
}

void UpdateRouter::on_refused(const std::string& reason) {
  lose_all(reason);
  for (const auto& [number, feed] : feeds_) feed->on_closed(reason);
  execs_.close(reason);
}

void UpdateRouter::close(const std::string& reason) {
  on_refused(reason);
  meshes_.clear();
  feeds_.clear();
  actors_.clear();
}

bool UpdateRouter::begin_handover(const std::string& mesh, std::chrono::milliseconds lease) {
  const auto found = meshes_.find(mesh);
  if (found == meshes_.end()) return false;
  found->second.begin_handover(lease);
  return true;
}

std::chrono::milliseconds UpdateRouter::shortest_given_lease() const {
  std::chrono::milliseconds shortest{0};
  for (const auto& [name, mesh] : meshes_) {
    const auto given = mesh.given_lease();
    if (given.count() > 0) shortest = shortest.count() == 0 ? given : std::min(shortest, given);
  }
  return shortest;
}

std::vector<LeaseRenewer::Lease> UpdateRouter::leases() const {
  std::vector<LeaseRenewer::Lease> list;
  for (const auto& [name, mesh] : meshes_) list.push_back(mesh.lease());
  for (const auto& actors : actors_)
    list.push_back(
        {.name = actors->lease_name(), .length = actors->lease(), .shortest = actors->lease()});
  return list;
}

bool UpdateRouter::is_leased_on(const std::string& lease, const HostAddr& host) const {
  if (const auto found = meshes_.find(lease); found != meshes_.end()) {
    // Ranks that wait for their next incarnation need the lease, too.
    const auto& monitor = found->second.monitor();
    if (!monitor.progress().is_for(gateway_.status().self(), host)) return false;
    // What still runs there is to end, before it runs elsewhere.
    if (monitor.progress().is_left(host)) return false;
    return monitor.progress().is_alive_on(host) ||
           (monitor.has_restarts() && !monitor.progress().is_end_posted());
  }
  return std::any_of(actors_.begin(), actors_.end(), [&](const auto& actors) {
    return actors->lease_name() == lease && actors->is_leased_on(host);
  });
}

MeshMonitor* UpdateRouter::find(const Request& request, const flatbuffers::String* mesh,
                                const HostAddr** from) const {
  *from = hosts_.agent_behind(request.envelope.source_proc(), request.envelope.source_host());
  const auto found = meshes_.find(mesh->string_view());
  return *from == nullptr || found == meshes_.end() ? nullptr : &found->second.monitor();
}

void UpdateRouter::on_state_changed(const Request& request, const wire::StateChanged& changed) {
  const HostAddr* host = nullptr;
  auto* const monitor = find(request, changed.mesh(), &host);
  if (monitor == nullptr) return;
  const auto keep = monitor->shared_from_this();
  monitor->on_update(*host, changed.ranks(), changed.exit_reports(), changed.launch());
  monitor->on_ownership(*host, changed.ownership());
  monitor->on_troubles(*host, {.troubles = changed.troubles(), .stuck = changed.stuck()});
}

void UpdateRouter::on_output(const Request& request, const wire::Output& output) {
  const HostAddr* host = nullptr;
  auto* const monitor = find(request, output.mesh(), &host);
  if (monitor == nullptr) return;
  monitor->on_output(*host, output,
                     [this, to = Destination::to_agent(*host), mesh = output.mesh()->str(),
                      alive = std::weak_ptr<void>(alive_)](wire::OutputTakenT taken) {
                       if (alive.expired() || gateway_.bus() == nullptr) return;
                       taken.mesh = mesh;
                       gateway_.bus()->tell(to, std::move(taken));
                     });
}

void UpdateRouter::on_log(const Request& request, const wire::Log& log) {
  const auto* const host =
      hosts_.agent_behind(request.envelope.source_proc(), request.envelope.source_host());
  const auto found = feeds_.find(log.stream());
  if (host != nullptr && found != feeds_.end()) found->second->on_log(*host, log);
}

void UpdateRouter::on_actor_event(const Request& request, const wire::ActorEvent& event) {
  for (const auto& actors : actors_) actors->on_states(request.envelope, event.actors());
}

void UpdateRouter::on_proc_end(const std::weak_ptr<ActorMonitor>& actors, const RankReport& proc) {
  const auto monitor = actors.lock();
  if (monitor == nullptr) return;
  monitor->on_proc_end(proc);
  const auto id = monitor->ref().procs().proc_of(proc.rank);
  if (gateway_.bus() != nullptr && id)
    gateway_.bus()->give_up(Destination::to(*id), "its proc has ended: " + proc.describe());
}

}  // namespace meshbus
