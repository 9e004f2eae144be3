#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "client/src/actors/actor_mesh_impl.h"
#include "client/src/base/time_left.h"
#include "client/src/context/check_owner.h"
#include "client/src/proc_mesh/proc_mesh_impl.h"
#include "wire/actors_generated.h"
#include "wire/lifecycle_generated.h"

// How the actors of a mesh are made.
namespace meshbus {

std::string describe_by_rank(const std::map<std::uint64_t, Error>& errors) {
  std::map<std::string, std::vector<std::uint64_t>> ranks_of;
  std::vector<std::string> order;
  for (const auto& [rank, error] : errors) {
    auto& ranks = ranks_of[error.to_string()];
    if (ranks.empty()) order.push_back(error.to_string());
    ranks.push_back(rank);
  }
  std::string text;
  for (const auto& one : order) {
    const auto& ranks = ranks_of[one];
    text += (text.empty() ? "" : "; ") + std::string(ranks.size() == 1 ? "rank " : "ranks ") +
            to_string(to_rank_set(ranks)) + ": " + one;
  }
  return text;
}

namespace {

using std::chrono::milliseconds;

/// The error of one actor, without its name in front: then those of many ranks are one.
Error without_name(const Error& error, const std::string& actor) {
  const std::string front = "actor " + actor + ": ";
  return error.detail().starts_with(front)
             ? Error(error.code(), error.detail().substr(front.size()))
             : error;
}

/// Requests that carry parameters are asked in rounds of so many bytes, so that they fit into the
/// queue.
constexpr std::size_t kRoundBytes = std::size_t{4} * 1024 * 1024;

/// Nobody asked to hear of failures: it is printed, the procs are stopped, and this launcher ends
/// (spec 6.6).
void handle_actor_failure_by_default(ContextCore& core, Connection& connection,
                                     const std::weak_ptr<MeshMonitor>& procs,
                                     const ActorReport& failure) {
  if (failure.proc) return;  // it is told by the mesh of procs
  const auto mesh = procs.lock();
  if (mesh == nullptr) return;
  const bool is_ours = !mesh->progress().is_handed_over();
  std::string text = "meshbus: mesh " + mesh->name() + ": " + failure.describe() + "\n";
  if (is_ours)
    text +=
        "meshbus: nobody handles failures of these actors: their procs are stopped, and this "
        "launcher ends\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
  if (!is_ours) return;
  const auto stopped = stop_ranks(core, connection, *mesh, {.reason = failure.describe()});
  if (!stopped) std::fprintf(stderr, "meshbus: %s\n", stopped.error().to_string().c_str());
  std::fflush(nullptr);
  // Not exit(): static objects would be destroyed under the feet of the other threads.
  ::_exit(125);
}

/// A host that does not answer so long is not waited for: what is wrong with it, its procs will
/// tell.
constexpr milliseconds kLeaseLimit{3000};

/// Before there are any: a launcher that is gone a moment later leaves none behind.
Result<void> begin_leases(Connection& connection, const ActorMonitor& actors, milliseconds limit) {
  std::set<HostAddr> hosts;
  for (std::uint64_t rank = 0; rank < actors.ref().num_ranks(); ++rank)
    hosts.insert(actors.ref().actor_at(rank)->proc().host());
  std::vector<std::pair<HostAddr, Connection::Answer>> answers;
  for (const auto& host : hosts) {
    wire::RenewLeaseT renew;
    renew.meshes = {actors.lease_name()};
    renew.lease_ms = static_cast<std::uint32_t>(actors.lease().count());
    answers.emplace_back(host,
                         connection.ask(Destination::to_agent(host), std::move(renew), limit));
  }
  for (auto& [host, future] : answers) {
    const auto answer = future.get();
    // An agent of an older release knows no actors; what else there is, their procs will tell.
    if (!answer && answer.error().code() == ErrorCode::queue_full) return fail(answer.error());
  }
  return {};
}

}  // namespace

Result<ActorMesh> ProcMesh::spawn_actors(const std::string& type, std::string_view name,
                                         std::string_view params, ActorSpawnOptions options) {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  auto& core = impl_->core();
  const auto parsed = Name::parse(name);
  if (!parsed) return fail(parsed.error());
  auto procs = options.region ? ref().sliced(*options.region) : Result<ProcMeshRef>(ref());
  if (!procs) return fail(procs.error());
  const ActorMeshRef actors(std::move(*procs), *parsed);
  ConnectionUse connection(impl_->connection_use().core(), &impl_->connection());
  auto mesh_monitor = impl_->shared_monitor();
  auto failed = std::move(options.on_failure);
  if (!failed) {
    failed = [core_pointer = &core, to = connection.get(),
              procs_monitor = std::weak_ptr(mesh_monitor)](const ActorReport& failure) {
      handle_actor_failure_by_default(*core_pointer, *to, procs_monitor, failure);
    };
  }
  const auto lease = options.detach ? milliseconds(0) : mesh_monitor->options().lease;
  auto monitor =
      std::make_shared<ActorMonitor>(core.handlers(), actors, type, std::move(failed), lease);
  if (options.again) monitor->set_revival(std::string(params), std::move(options.on_again));
  auto impl = std::make_shared<ActorMeshImpl>(std::move(connection), monitor, mesh_monitor);

  const auto ready = core.config().duration(keys::spawn_ready);
  const auto end = std::chrono::steady_clock::now() +
                   options.deadline.value_or(ready.count() > 0 ? ready : std::chrono::seconds(30));
  if (lease.count() > 0) {
    if (auto leased =
            begin_leases(impl->connection(), *monitor, std::min(left_until(end), kLeaseLimit));
        !leased)
      return fail(leased.error());
  }
  core.run([&] { impl->connection().updates().add(monitor, mesh_monitor); });
  const std::uint64_t round = std::max<std::uint64_t>(1, kRoundBytes / (params.size() + 1024));
  std::map<std::uint64_t, Error> errors;
  for (std::uint64_t begin = 0; begin < actors.num_ranks(); begin += round) {
    std::vector<std::pair<std::uint64_t, Connection::Answer>> answers;
    const auto left =
        left_until(end);  // of all, so that those that do not answer say it in the same words
    for (std::uint64_t rank = begin; rank < std::min(begin + round, actors.num_ranks()); ++rank) {
      if (const auto proc = impl->proc_end(*actors.procs().create_rank(rank))) {
        errors.emplace(
            rank, Error(ErrorCode::actor_spawn_error, "its proc has ended: " + proc->describe()));
        continue;
      }
      wire::SpawnActorT spawn;
      spawn.type = type;
      spawn.name = parsed->to_string();
      spawn.params.assign(params.begin(), params.end());
      spawn.create_rank = rank;
      spawn.owner = impl->connection().self();
      answers.emplace_back(rank,
                           impl->connection().ask(Destination::to(actors.actor_at(rank)->proc()),
                                                  std::move(spawn), left));
    }
    for (auto& [rank, future] : answers) {
      const auto answer = future.get();
      const auto* const state = answer ? answer->body_as<wire::ActorState>() : nullptr;
      if (state != nullptr) {
        core.run([&] { monitor->on_state(rank, *state); });
      } else {
        errors.emplace(
            rank, answer ? Error(ErrorCode::internal, "its proc answered " + answer->body_name())
                         : without_name(answer.error(), actors.actor_at(rank)->to_string()));
      }
    }
  }
  if (errors.empty()) {
    monitor->arm();
    if (options.detach) impl->detach();
    return ActorMeshImpl::make(impl, actors);
  }
  // One code when all agree on it.
  auto code = errors.begin()->second.code();
  for (const auto& [rank, error] : errors) {
    if (error.code() != code) code = ErrorCode::actor_spawn_error;
  }
  if (code != ErrorCode::actor_type_not_registered && code != ErrorCode::refused)
    code = ErrorCode::actor_spawn_error;
  return fail(code, "actors " + actors.name().to_string() + " of type " + type + ": " +
                        std::to_string(errors.size()) + " of " +
                        std::to_string(actors.num_ranks()) +
                        " were not made: " + describe_by_rank(errors));
}

}  // namespace meshbus
