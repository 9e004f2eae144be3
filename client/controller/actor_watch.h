#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/controller/actor_mesh_controller.h"
#include "client/controller/supervisor_actions.h"

namespace meshbus {

/// The meshes of actors that a Supervisor watches: those that have subscribers, and those of one
/// name in every mesh. Pure.
class ActorWatch {
 public:
  using Time = MeshController::Time;
  using Actors = std::map<std::string, ActorMeshController, std::less<>>;

  /// `everywhere`: the name of the actors to be watched in each mesh; empty = none.
  explicit ActorWatch(std::string everywhere) : everywhere_(std::move(everywhere)) {}

  /// By ActorsName.
  const Actors& all() const noexcept { return actors_; }
  const ActorMeshController* find(std::string_view name) const;
  /// Watches these. `procs`: of their mesh; null: it is not known yet. Errors: queue_full.
  Result<SupervisorActions> add(const ActorsName& name, const MeshController* procs, Time now);
  /// A mesh is new: watches the actors that are watched everywhere.
  void add_mesh(SupervisorActions& actions, const MeshController& procs, Time now);
  /// A mesh is forgotten.
  void drop_mesh(const std::string& mesh);
  /// Forgets those that have had no subscriber for MeshController::kMemory.
  void forget(const std::function<bool(const std::string&)>& is_wanted, Time now);
  /// Takes events of the MeshController of that mesh. To be called before its events are passed on;
  /// what it returns comes behind them.
  std::vector<SupervisorActions> procs_told(const std::string& mesh,
                                            const std::vector<WatchEvent>& events, Time now);
  void pushed(SupervisorActions& actions, std::uint64_t proc_key, std::uint64_t host_key,
              std::uint64_t incarnation, const ActorUpdate& update, Time now);
  void answered(SupervisorActions& actions, const SupervisorQuestion& question,
                const HostAnswer& answer, Time now);
  /// False: these are not watched.
  bool stop(SupervisorActions& actions, const wire::StopProcsT& order, Time now);
  /// Asks all procs again.
  void poll(SupervisorActions& actions, Time now);
  /// To be called at next_due().
  void turn(SupervisorActions& actions, Time now);
  std::optional<Time> next_due() const;

 private:
  ActorMeshController& make(SupervisorActions& actions, const ActorsName& name,
                            const MeshController* procs, Time now);

  std::string everywhere_;
  Actors actors_;
  /// Since when nobody wants them.
  std::map<std::string, Time> unwanted_;
};

}  // namespace meshbus
