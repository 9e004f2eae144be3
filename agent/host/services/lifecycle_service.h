#pragma once

#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/host/liveness/liveness_monitor.h"
#include "agent/host/procs/mesh_procs.h"
#include "agent/host/services/ownership_service.h"
#include "agent/host/services/request_checks.h"
#include "agent/host/services/resize_service.h"
#include "agent/host/services/topology_reader.h"

namespace meshbus::host {

/// Answers requests to start, stop, signal and feed procs, and what procs say about themselves
/// (schemas/lifecycle.fbs). Lives on the reactor's thread.
class LifecycleService {
 public:
  /// What it works with; all of it outlives it.
  struct Parts {
    Reactor& reactor;
    Bus& bus;
    MeshProcs& procs;
    RequestChecks& checks;
    OwnershipService& ownership;
    LivenessMonitor& liveness;
    ResizeService& resizes;
  };
  /// `address`: of this host.
  LifecycleService(const Parts& parts, HostAddr address)
      : parts_(parts), address_(std::move(address)), topologies_(parts.reactor) {}

  static void add_rows(Dispatcher& handlers, const std::unique_ptr<LifecycleService>& service);

  /// Sends the answers to spawns that were accepted in this turn. Call it when the ledger is
  /// written and the keeper knows nothing yet: if this agent is killed then, no requester waits for
  /// an answer that will not come.
  void answer_spawns();
  /// Sends StopAndExit to the procs that are to be asked. Call it at the end of each turn.
  void send_questions();

 private:
  /// A stop of some ranks; no ranks: of all.
  struct RanksToStop {
    std::vector<RankBlock> ranks;
    StopOrder order;
  };
  /// A request to start procs that has been read.
  struct SpawnOrder {
    Request request;
    MeshSpec spec;
    std::string entry;  ///< For the ledger.
    std::string owner;  ///< For people.
    /// Refused meanwhile.
    bool is_dropped = false;
    /// Asked for meanwhile.
    std::vector<RanksToStop> stops = {};
  };

  void on_spawn_procs(const Request& request, const wire::SpawnProcs& message);
  void on_restart_procs(const Request& request, const wire::RestartProcs& message);
  void on_stop_procs(const Request& request, const wire::StopProcs& message);
  void on_signal_procs(const Request& request, const wire::SignalProcs& message);
  void on_write_input(const Request& request, const wire::WriteInput& message);
  void on_get_free_port(const Request& request, const wire::GetFreePort& message);
  void on_proc_ready(const Request& request, const wire::ProcReady& message);
  void on_proc_heartbeat(const Request& request, const wire::ProcHeartbeat& message);
  void spawn(SpawnOrder order, const topology::Topology* topology);
  /// What waits for the topology, of a mesh that is to be stopped: refuses it, or, when the stop is
  /// for some ranks, keeps the stop for when they are started.
  void stop_waiting(std::string_view mesh, const RanksToStop& stop);
  void stop(Mesh& mesh, const RanksToStop& stop);
  void refuse_spawn(const Request& request, const std::string& mesh, std::string owner,
                    const Error& error);

  Parts parts_;
  HostAddr address_;
  TopologyReader topologies_;
  std::list<SpawnOrder> waiting_;  ///< For the topology.
  bool has_accepted_ = false;
};

}  // namespace meshbus::host
