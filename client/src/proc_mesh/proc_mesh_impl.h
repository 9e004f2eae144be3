#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "client/src/context/connection.h"
#include "client/src/context/context_core.h"
#include "client/src/monitors/mesh_monitor.h"
#include "client/src/proc_mesh/restart_orders.h"
#include "client/src/proc_mesh/spawn_recipe.h"
#include "meshbus/host_mesh.h"
#include "meshbus/proc_mesh.h"

namespace meshbus {

class MpiWatch;
class ResizeOrders;

/// What a mesh needs to be resized.
struct Resizing {
  std::mutex one;  ///< Held by the resize that is under way.
  /// Null: the mesh was taken over, and only the launcher that made it knows how it is started.
  std::shared_ptr<SpawnRecipe> recipe = {};
  std::uint32_t taken_revision = 0;  ///< MeshLayout::revision that it was taken over with.
  std::shared_ptr<RestartOrders> restarts = {};  ///< Null: its ranks are not restarted.

  std::uint32_t revision() const { return recipe ? recipe->revision() : taken_revision; }
};

class ProcMesh::Impl {
 public:
  Impl(ConnectionUse connection, std::shared_ptr<MeshMonitor> monitor)
      : connection_(std::move(connection)), monitor_(std::move(monitor)) {}
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ContextCore& core() const noexcept { return *connection_.core(); }
  Connection& connection() const noexcept { return *connection_.get(); }
  MeshMonitor& monitor() const noexcept { return *monitor_; }
  const ConnectionUse& connection_use() const noexcept { return connection_; }
  const std::shared_ptr<MeshMonitor>& shared_monitor() const noexcept { return monitor_; }
  /// Hosts that are there for this mesh alone, and end with it. Null: others look after them.
  HostMesh* held_hosts() noexcept { return hosts_ ? &*hosts_ : nullptr; }
  void hold(HostMesh hosts) { hosts_ = std::move(hosts); }
  const BindingMap& bindings() const noexcept { return bindings_; }
  void set_bindings(BindingMap bindings) { bindings_ = std::move(bindings); }
  void add_bindings(BindingMap bindings);
  Resizing& resizing() noexcept { return resizing_; }
  /// What makes the ranks one MPI job; null: they are none.
  MpiWatch* mpi() const noexcept { return mpi_.get(); }
  void set_mpi(std::shared_ptr<MpiWatch> mpi) { mpi_ = std::move(mpi); }
  /// Takes orders for another size from now on, when there is a handler for them.
  void take_orders();

 private:
  /// Goes last.
  std::optional<HostMesh> hosts_;
  ConnectionUse connection_;
  std::shared_ptr<MeshMonitor> monitor_;
  BindingMap bindings_;
  Resizing resizing_;
  std::shared_ptr<MpiWatch> mpi_;
  std::shared_ptr<ResizeOrders> orders_;
};

/// Those of the set (empty = all of them) that lie on a host of the mesh.
RankSet ranks_on(const ProcMeshRef& mesh, std::uint64_t host_index, const RankSet& ranks);

/// Orders the ranks of a mesh to be stopped and waits. Errors: stop_error naming the ranks that are
/// left.
Result<MeshOutcome> stop_ranks(ContextCore& core, Connection& connection, MeshMonitor& monitor,
                               const StopOptions& options);
/// Orders it and does not wait.
void order_stop(ContextCore& core, Connection& connection, MeshMonitor& monitor,
                const StopOptions& options);

/// A restart policy that goes with a mesh. `is_on`: whether a rank lies on a host.
struct LeftPlan {
  RestartPlan plan;
  std::function<bool(std::uint64_t rank, const HostAddr& host)> is_on;
};

/// Hands a mesh over to a controller, as ProcMesh::handover() says. `is_over(host)`: nothing of it
/// lives there, so that nobody needs to answer for it. `plan`: its restart policy; null: it has
/// none, or its hosts have it already. Waits.
Result<void> hand_over(ContextCore& core, Connection& connection, const std::string& mesh,
                       const std::vector<HostAddr>& hosts, const ProcId& controller,
                       const HandoverOptions& options,
                       const std::function<bool(const HostAddr&)>& is_over,
                       const LeftPlan* plan = nullptr);

/// As ProcMesh::grow() and ProcMesh::shrink(), on any thread that may wait.
Result<ResizeReport> grow_mesh(ProcMesh::Impl& mesh, const GrowOptions& options);
Result<ResizeReport> shrink_mesh(ProcMesh::Impl& mesh, const ShrinkOptions& options);

/// What happens to a failure that the launcher did not ask to hear of (spec 6.6): it is printed,
/// the mesh is stopped, and this process exits with the mesh's exit code. Handlers' thread; returns
/// only when the mesh is gone already, or handed over.
void handle_failure_by_default(ContextCore& core, Connection& connection,
                               const std::weak_ptr<MeshMonitor>& monitor,
                               const RankReport& failure);

}  // namespace meshbus
