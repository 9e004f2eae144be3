#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/src/context/connection.h"
#include "client/src/context/context_core.h"
#include "client/src/monitors/actor_monitor.h"
#include "client/src/monitors/mesh_monitor.h"
#include "meshbus/actor_mesh.h"

namespace meshbus {

/// "ranks 0-2,5: timeout: ...; rank 7: ..."
std::string describe_by_rank(const std::map<std::uint64_t, Error>& errors);

/// What ActorMesh and its views share.
class ActorMeshImpl {
 public:
  /// `monitor`, `procs`: for the maker of the actors; null for others.
  ActorMeshImpl(ConnectionUse connection, std::shared_ptr<ActorMonitor> monitor,
                std::shared_ptr<MeshMonitor> procs)
      : connection_(std::move(connection)),
        monitor_(std::move(monitor)),
        procs_(std::move(procs)) {}
  ~ActorMeshImpl() { let_go(); }
  ActorMeshImpl(const ActorMeshImpl&) = delete;
  ActorMeshImpl& operator=(const ActorMeshImpl&) = delete;

  ContextCore& core() const noexcept { return *connection_.core(); }
  Connection& connection() const noexcept { return *connection_.get(); }
  ActorMonitor* monitor() const noexcept { return monitor_.get(); }
  const std::shared_ptr<ActorMonitor>& shared_monitor() const noexcept { return monitor_; }
  /// The end of that proc, if it has ended and is ours.
  std::optional<RankReport> proc_end(std::uint64_t create_rank) const;
  /// The same, once it is told; nothing when it is not within that time.
  std::optional<RankReport> wait_proc_end(std::uint64_t create_rank,
                                          std::chrono::milliseconds limit) const;

  /// Their owner goes: asks them to stop, unless they are to live on, and does not wait. Nobody
  /// hears of them any more.
  void let_go();

  /// They live on when their owner goes.
  void detach() { is_detached_ = true; }

  static ActorMesh make(const std::shared_ptr<ActorMeshImpl>& impl, ActorMeshRef ref) {
    return ActorMesh(ActorView(impl, std::move(ref)));
  }

 private:
  ConnectionUse connection_;
  std::shared_ptr<ActorMonitor> monitor_;
  std::shared_ptr<MeshMonitor> procs_;
  std::atomic<bool> is_detached_{false};
  std::atomic<bool> has_let_go_{false};
};

}  // namespace meshbus
