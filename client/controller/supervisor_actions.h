#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/controller/watch_event.h"
#include "meshbus/address.h"
#include "wire/forward.h"

namespace meshbus {

/// A question of a Supervisor to a host or a proc.
struct SupervisorQuestion {
  enum class Kind {
    probe,          ///< GetHost
    list,           ///< ListMeshes
    stream,         ///< StreamState
    state,          ///< GetState
    stop,           ///< StopProcs, as in find(mesh)->stop_order()
    stop_gang,      ///< StopProcs, as in `stop`.
    restart,        ///< RestartProcs, as in `restart`, with find(mesh)->restart_plan().
    renew,          ///< RenewLease of `meshes`, as long as before.
    stream_actors,  ///< StreamActors, to the proc of `rank`; `mesh` is an ActorsName.
    stop_actor,     ///< StopActor there, as in find_actors(mesh)->stop_order().
  };
  Kind kind;
  HostAddr host;
  std::string mesh;
  std::string after;  ///< Where a list goes on.
  std::vector<std::string> meshes = {};
  std::uint64_t rank = 0;
  std::uint64_t incarnation = 0;  ///< The incarnation of the proc of that rank.
  std::shared_ptr<const wire::StopProcsT> stop = {};
  std::shared_ptr<const wire::RestartProcsT> restart = {};
  std::uint64_t ownership = 0;  ///< As in MeshController::Order.
};

/// What a Supervisor wants to be done.
struct SupervisorActions {
  std::vector<WatchEvent> events;
  /// Each gets one answer(), an Error if need be.
  std::vector<SupervisorQuestion> questions;
  /// A poll has begun: subscribers are to hear that.
  bool is_heartbeat = false;
};

}  // namespace meshbus
