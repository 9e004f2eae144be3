// HostMesh::spawn() with ProcSpec::mpi.
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "client/src/host_mesh/host_mesh_impl.h"
#include "client/src/mpi/mpi_job.h"
#include "client/src/mpi/mpi_watch.h"
#include "client/src/proc_mesh/proc_mesh_impl.h"

namespace meshbus {
namespace {

MpiWire wire_of(Mpi mpi) {
  if (mpi == Mpi::pmi1) return MpiWire::pmi1;
  return mpi == Mpi::pmix ? MpiWire::pmix : MpiWire::any;
}

Result<void> check_spec(const ProcSpec& spec) {
  if (spec.kind != ProcKind::plain)
    return fail(ErrorCode::configuration_error, "an MPI job consists of plain procs");
  if (spec.is_template || spec.command.empty())
    return fail(ErrorCode::configuration_error, "an MPI job needs a command, and no template");
  if (spec.restart.on != RestartPolicy::On::never && spec.restart.gang != Gang::all)
    return fail(ErrorCode::configuration_error,
                "a rank of an MPI job cannot join again alone: its restarts need Gang::all");
  return {};
}

/// Has the watch hear what the handlers of the mesh hear.
void follow(Handlers& handlers, const std::weak_ptr<MpiWatch>& late) {
  // Without a handler a failure stops the mesh anyway, and ends this process.
  if (handlers.on_failure)
    handlers.on_failure = [late, told = std::move(handlers.on_failure)](const RankReport& rank) {
      if (const auto watch = late.lock()) watch->on_failure(rank);
      told(rank);
    };
  handlers.on_state = [late, told = std::move(handlers.on_state)](const RankReport& rank) {
    if (told) told(rank);
    if (const auto watch = late.lock()) watch->on_state();
  };
  handlers.on_end = [late, told = std::move(handlers.on_end)](MeshOutcome outcome) {
    if (const auto watch = late.lock()) watch->on_end(outcome);
    if (told) told(outcome);
  };
}

}  // namespace

/// Reaches the parts of a mesh that was just made.
class MpiSpawn {
 public:
  static void attach(ProcMesh& mesh, const std::shared_ptr<MpiWatch>& watch) {
    auto& impl = *mesh.impl_;
    impl.set_mpi(watch);
    const std::weak_ptr<MeshMonitor> monitor = impl.shared_monitor();
    // A handler may still run when the mesh goes.
    const auto way =
        std::make_shared<ConnectionUse>(impl.connection_use().core(), &impl.connection());
    watch->attach({.known =
                       [monitor] {
                         const auto alive = monitor.lock();
                         return alive ? alive->progress().outcome() : MeshOutcome();
                       },
                   .stop =
                       [monitor, way](const StopOptions& options) {
                         if (const auto alive = monitor.lock())
                           order_stop(*way->core(), *way->get(), *alive, options);
                       },
                   .call_later =
                       [late = std::weak_ptr(watch), way](std::chrono::milliseconds delay) {
                         auto& core = *way->core();
                         core.post([late, delay, &core] {
                           core.reactor().after(delay, [late, &core] {
                             core.handlers().post([late] {
                               if (const auto alive = late.lock()) alive->on_time();
                             });
                           });
                         });
                       },
                   .note =
                       [monitor](const std::optional<JobTrouble>& trouble) {
                         if (const auto alive = monitor.lock())
                           alive->progress().change([&](auto& facts) { facts.trouble = trouble; });
                       }});
  }
};

Result<ProcMesh> spawn_mpi(HostMesh& hosts, std::string_view base, std::uint64_t ranks,
                           ProcSpec spec, Handlers handlers,
                           const std::function<Result<ProcMesh>(ProcSpec, Handlers)>& spawn) {
  const auto in_spawn = [&](const Error& error) {
    return fail(error.within("spawn of " + std::string(base)));
  };
  if (auto fine = check_spec(spec); !fine) return in_spawn(fine.error());
  const auto wire = MpiJob::choose(wire_of(spec.mpi), spec.command);
  if (!wire) return in_spawn(wire.error());
  const auto watch = std::make_shared<MpiWatch>(spec.restart.on != RestartPolicy::On::never);
  const std::weak_ptr<MpiWatch> late = watch;
  auto job = MpiJob::start(hosts, std::string(base), ranks, *wire,
                           {.on_notice =
                                [late](const mpi::Notice& notice) {
                                  if (const auto alive = late.lock()) alive->on_notice(notice);
                                },
                            .on_lost_helper =
                                [late](const RankReport& helper) {
                                  if (const auto alive = late.lock()) alive->on_lost_helper(helper);
                                }});
  if (!job) return in_spawn(job.error());
  (*job)->wrap(spec);
  watch->set_job(std::move(*job));
  follow(handlers, late);
  auto mesh = spawn(std::move(spec), std::move(handlers));
  if (mesh) MpiSpawn::attach(*mesh, watch);
  return mesh;
}

}  // namespace meshbus
