#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "client/controller/actor_watch.h"
#include "client/controller/mesh_controller.h"
#include "client/controller/owned_meshes.h"
#include "client/controller/supervisor_actions.h"
#include "wire/forward.h"

namespace meshbus {

/// The meshes that a Supervisor watches: feeds a MeshController for each mesh of procs, and tells
/// ActorWatch what becomes of these procs. Pure.
class SupervisedMeshes {
 public:
  using Time = MeshController::Time;
  using Actions = SupervisorActions;
  using All = OwnedMeshes::Meshes;

  /// `only`: that mesh alone, by name or base; empty = all. `actors`: as ActorWatch.
  SupervisedMeshes(std::shared_ptr<const std::set<HostAddr>> watched, std::string only,
                   const std::string& actors)
      : watched_(std::move(watched)), only_(std::move(only)), actors_(actors) {}

  const All& all() const noexcept { return meshes_; }
  const MeshController* find(std::string_view mesh) const;
  bool is_wanted(std::string_view mesh) const;
  /// Live procs on that host.
  std::uint64_t live_on(const HostAddr& host) const;
  ActorWatch& actors() noexcept { return actors_; }
  const ActorWatch& actors() const noexcept { return actors_; }

  /// A host answers, or does not.
  void host_changed(Actions& actions, const HostAddr& host, bool is_silent,
                    const std::string& problem, Time now);
  /// The agent of that host (or every one) may not push to us any more.
  void streams_lost(Actions& actions, const std::optional<HostAddr>& host, Time now);
  /// A page of what that host has. Returns the live procs in it that live_on() does not count.
  std::uint64_t listed(Actions& actions, const HostAddr& host, const ListUpdate& list, Time now);
  /// The agent there says that ranks have changed. Returns whether the mesh is known.
  bool pushed(Actions& actions, const HostAddr& host, const std::string& mesh,
              const RankUpdate& update, Time now);
  void answered(Actions& actions, const SupervisorQuestion& question, const HostAnswer& answer,
                Time now);
  /// Stops the mesh of that order. Returns whether it is known.
  bool stop(Actions& actions, wire::StopProcsT order, Time now);
  /// Stops those that have something to stop, by that order.
  void stop_all(Actions& actions, const wire::StopProcsT& order,
                const std::function<bool(const MeshController&)>& is_meant, Time now);
  /// What is ours has changed: those that are restart their ranks.
  void note_owned(Actions& actions, const OwnedMeshes& owned, Time now);
  /// This one restarts none of its ranks from now on.
  void disown(const std::string& mesh);
  /// To be called at next_due().
  void turn(Actions& actions, Time now);
  std::optional<Time> next_due() const;

 private:
  void add(Actions& actions, const MeshController& mesh, MeshController::Actions&& more, Time now);
  void add_mesh(Actions& actions, const HostAddr& host, const MeshUpdate& update, Time now);

  std::shared_ptr<const std::set<HostAddr>> watched_;
  std::string only_;
  All meshes_;
  ActorWatch actors_;
  /// Hosts that do not answer, and why.
  std::map<HostAddr, std::string> silent_;
};

}  // namespace meshbus
