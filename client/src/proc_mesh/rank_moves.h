#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "client/src/context/connection.h"
#include "client/src/context/context_core.h"
#include "client/src/monitors/mesh_monitor.h"
#include "client/src/proc_mesh/restart_orders.h"
#include "client/src/proc_mesh/spawn_recipe.h"
#include "common/address/mesh_layout.h"

namespace meshbus {

/// Moves the ranks of a lost host to a spare (ProcSpec::spares): asks spares whether they can take
/// ranks, gives one the place of the lost host in the mesh, has the ranks started there, and tells
/// the other hosts. Lives on the reactor's thread.
class RankMoves : public std::enable_shared_from_this<RankMoves> {
 public:
  RankMoves(ContextCore& core, Connection& connection, std::weak_ptr<MeshMonitor> monitor,
            std::shared_ptr<SpawnRecipe> recipe, std::shared_ptr<RestartOrders> orders)
      : core_(core),
        connection_(connection),
        monitor_(std::move(monitor)),
        recipe_(std::move(recipe)),
        orders_(std::move(orders)) {}

  /// MeshMonitor::on_spare() follows.
  void ask(const SpareHosts::Pair& pair);
  void start(const RestartJudge::Move& move);

 private:
  /// Ranks that are being started, each with the number of its restarts.
  using Started = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

  MeshLayout layout_of(const MeshMonitor& monitor) const;
  void answer(const SpareHosts::Pair& pair, bool can_take);
  void on_host(const SpareHosts::Pair& pair, const Result<ControlMessage>& answer);
  /// MASTER_PORT of the rank 0 that moves.
  void find_port(const RestartJudge::Move& move, const Started& started);
  void order(const RestartJudge::Move& move, const Started& started);
  void tell_when_begun(const HostAddr& spare, const Started& started,
                       std::chrono::milliseconds wait);
  void tell(const HostAddr& host, const MeshLayout& layout);
  /// Whether one of them is to be started, and has not begun.
  bool is_pending(const Started& started) const;
  /// Null when nobody is interested any more; then the connection may be gone too.
  std::shared_ptr<MeshMonitor> find_monitor() const;
  template <typename Function>
  void after(std::chrono::milliseconds delay, Function function);

  ContextCore& core_;
  Connection& connection_;
  std::weak_ptr<MeshMonitor> monitor_;
  std::shared_ptr<SpawnRecipe> recipe_;
  std::shared_ptr<RestartOrders> orders_;
};

/// Has the ranks of that mesh moved, from its arm() on. Any thread.
void follow_moves(ContextCore& core, Connection& connection,
                  const std::shared_ptr<MeshMonitor>& monitor,
                  const std::shared_ptr<SpawnRecipe>& recipe,
                  const std::shared_ptr<RestartOrders>& orders);

}  // namespace meshbus
