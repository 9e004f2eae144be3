#include <memory>
#include <string>
#include <utility>

#include "client/src/host_mesh/host_mesh_impl.h"
#include "client/src/proc_mesh/proc_mesh_impl.h"
#include "client/src/proc_mesh/rank_moves.h"
#include "client/src/proc_mesh/ranks_start.h"
#include "client/src/proc_mesh/restart_orders.h"
#include "client/src/proc_mesh/spawn_recipe.h"
#include "common/security/token.h"

namespace meshbus {

Result<ProcMesh> spawn_procs(const std::shared_ptr<ContextCore>& core, ConnectionUse connection,
                             const std::vector<HostAddr>& hosts, bool end_with_us,
                             std::string_view base, const Extent& extent, ProcSpec spec,
                             Handlers handlers) {
  auto name = spec.uuid ? Name::make(base, *spec.uuid) : Name::make(base);
  if (!name) return fail(name.error());
  if (auto fine = complete(spec); !fine)
    return fail(fine.error().within("spawn of " + std::string(base)));
  if (handlers.on_output) spec.output = OutputMode::stream;
  auto ref = ProcMeshRef::make(std::move(*name), hosts, extent);
  if (!ref) return fail(ref.error());
  // After a reconnect the broker may know us by another name; agents watch the owner by
  // this name.
  if (!hosts.empty()) {
    if (auto up = connection->wait_up(core->config().duration(keys::spawn_idle)); !up)
      return fail(up.error().within("spawn of " + std::string(base)));
  }

  const auto& config = core->config();
  MeshMonitor::Options options;
  const bool has_default = !handlers.on_failure;
  // The default handler needs the monitor that it belongs to.
  auto late_monitor = std::make_shared<std::weak_ptr<MeshMonitor>>();
  if (has_default) {
    handlers.on_failure = [core = core.get(), connection = connection.get(),
                           late_monitor](const RankReport& failure) {
      handle_failure_by_default(*core, *connection, *late_monitor, failure);
    };
  }
  options.handlers = std::move(handlers);
  options.has_output = spec.output == OutputMode::stream;
  options.is_plain = spec.kind == ProcKind::plain;
  options.lease = spec.lease.value_or(end_with_us ? std::chrono::milliseconds(0)
                                                  : config.duration(keys::lease));
  options.grace = spec.grace.value_or(config.duration(keys::terminate_grace));
  options.restart = spec.restart;
  options.spares = spec.spares;
  options.seed = random_u64();
  const auto monitor = std::make_shared<MeshMonitor>(core->reactor(), core->handlers(),
                                                     std::move(*ref), std::move(options));
  *late_monitor = monitor;

  // From here on the mesh object stops what was started when this function leaves with an error.
  core->run([&] { connection->updates().add(monitor, core->reactor()); });
  auto& way = *connection.get();
  auto impl = std::make_unique<ProcMesh::Impl>(std::move(connection), monitor);
  auto* const parts = impl.get();
  ProcMesh mesh(std::move(impl));
  auto& resizing = parts->resizing();
  resizing.recipe = std::make_shared<SpawnRecipe>(*core, spec);
  auto& recipe = *resizing.recipe;
  RanksStart spawn(*core, way, *monitor, recipe, spec.stop, {});
  Result<void> done = recipe.find_master(way, monitor->mesh());
  if (done) done = spawn.order();
  parts->set_bindings(spawn.take_bindings());
  if (spec.restart.on != RestartPolicy::On::never)
    resizing.restarts = follow_restarts(*core, way, monitor, spawn.take_sent());
  if (!spec.spares.empty()) follow_moves(*core, way, monitor, resizing.recipe, resizing.restarts);
  if (done && !spec.wait_ready) {
    monitor->arm();
    parts->take_orders();
    return mesh;
  }
  if (done) done = spawn.wait_ready();
  if (done) {
    monitor->arm();
    parts->take_orders();
    return mesh;
  }
  const bool is_given_up = spec.stop.stop_requested();
  const auto stopped = spawn.undo(is_given_up ? "the spawn was given up" : "the spawn failed");
  if (stopped) return fail(done.error());
  const Error both(done.error().code(),
                   done.error().detail() +
                       "; and what did start could not be stopped: " + stopped.error().detail());
  return fail(
      both.about(stopped.error().reports() ? stopped.error().reports() : done.error().reports()));
}

}  // namespace meshbus
