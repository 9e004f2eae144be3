#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/host/lifecycle/drains.h"
#include "agent/host/lifecycle/launch_monitor.h"
#include "agent/host/lifecycle/side_processes.h"
#include "agent/host/lifecycle/spawn_service.h"
#include "agent/host/lifecycle/usage_sampler.h"
#include "agent/host/ownership/mesh_owners.h"
#include "agent/host/procs/keeper_loss.h"
#include "agent/host/recovery/recovery.h"
#include "agent/keeper/keeper_client.h"

namespace meshbus::host {

/// The procs of one host: owns the classes that start, watch and stop them by way of the keeper,
/// and does their work at the end of each turn, in order. It knows nothing of the bus: what happens
/// to a mesh collects in the updates of the ProcTable until the caller takes and sends it.
/// Large because: it owns all these parts and hands them to each other.
///
/// Lives on the reactor's thread. Meshes and procs are valid until forget_old() says otherwise.
class MeshProcs : private EndObserver {
 public:
  struct Options {
    HostAddr address;  ///< The address of this host.
    Config config;
    Environment environment;         ///< What procs inherit.
    bool own_pid_namespace = false;  ///< The keeper's numbers of processes are not ours.
    Ledger ledger;                   ///< What another agent has left, to go on with. May be none.
    OutputSpool spool;               ///< Likewise.
    EventLog events = {};            ///< May be none.
    os::LimitPlaces limits = {};     ///< Where the keeper makes cgroups for procs with limits.
    std::string progress = {};       ///< See ProgressFiles. May be empty.
    /// Why the keeper is gone, as it is now. May be empty.
    std::function<KeeperLoss()> why_keeper_lost = {};
  };

  MeshProcs(Reactor& reactor, UniqueFd keeper_socket, BootstrapWriter bootstraps, Options options,
            OutputFollower& follower);
  ~MeshProcs() override;
  MeshProcs(const MeshProcs&) = delete;
  MeshProcs& operator=(const MeshProcs&) = delete;

  /// Goes on with what another agent has left in the ledger. Once, before the first turn.
  void take_over() { recovery_.take_over(ledger_.ledger()); }

  LedgerWriter& ledger() noexcept { return ledger_; }

  ProcTable& table() noexcept { return table_; }
  EventBook& events() noexcept { return book_; }
  ProcEnding& ending() noexcept { return ending_; }
  LaunchMonitor& launches() noexcept { return launches_; }
  InputWriter& inputs() noexcept { return inputs_; }
  OutputReader& outputs() noexcept { return outputs_; }
  MeshOwners& owners() noexcept { return owners_; }
  UsageSampler& usage() noexcept { return usage_; }
  SideProcesses& sides() noexcept { return sides_; }
  /// The drains that leave the host usable.
  Drains& drains() noexcept { return drains_; }

  /// See SpawnService::spawn. Errors besides: refused (the host shuts down, or has lost its
  /// keeper).
  Result<SpawnService::Spawned> spawn(MeshSpec spec, std::string entry,
                                      const topology::Topology* topology);
  /// See SpawnService::restart. Errors besides: as spawn().
  Result<SpawnService::Spawned> restart(Mesh& mesh, const std::vector<RankBlock>& ranks,
                                        std::uint32_t restarts);
  /// See SpawnService::resize.
  Result<bool> resize(Mesh& mesh, const MeshLayout& layout) { return spawns_.resize(mesh, layout); }
  /// Ends every proc, at most `in_flight` at a time, and calls `done` when they and their
  /// descendants are gone. From now on nothing is started. A second call can only hasten the first;
  /// all get the same outcome.
  void shut_down(const StopOrder& order, std::size_t in_flight, Drain::Done done);
  /// Whether the keeper is dead: every live proc has been reported as failed, and nothing can be
  /// done here any more.
  bool has_lost_keeper() const noexcept { return keeper_.lost(); }

  // The end of each turn, in this order.
  /// Ends and starts what there is room for.
  void advance();
  /// Writes down what has happened, before owners and keeper are told.
  void write_down();
  /// Tells the keeper what it is to do, if there is anything.
  void send_orders();
  /// Reads on where output had to wait.
  void resume_outputs();
  /// Tells the keeper also what it may forget: after the owners, which wait for news of ends.
  void talk_to_keeper();
  /// Forgets what is too old or too much.
  void forget_old(const std::function<void(Mesh&)>& on_forgotten);

 private:
  /// Errors: refused (the host shuts down, or has lost its keeper).
  Result<void> check_start() const;
  keeper::KeeperClient::Events keeper_events();
  void watch_keeper();
  void on_keeper_lost();
  void on_ended(const Proc& proc, bool ok) override;
  void on_empty(const Proc& proc) override;
  void on_reported(Proc& proc) override;

  Reactor& reactor_;
  std::string host_;
  std::function<KeeperLoss()> why_keeper_lost_;
  ProcTable table_;
  OutputSpool spool_;
  SpoolSlots slots_;
  EventBook book_;
  ProgressFiles progress_;
  LedgerWriter ledger_;
  OutputReader outputs_;
  InputWriter inputs_;
  keeper::KeeperClient keeper_;
  SideProcesses sides_{keeper_};
  bool is_keeper_writing_ = false;
  ProcEnding ending_;
  Drains drains_;
  LaunchMonitor launches_;
  SpawnService spawns_;
  MeshOwners owners_;
  Recovery recovery_;
  UsageSampler usage_;
  std::unique_ptr<Drain> shutdown_;  ///< Null: the host is not to end.
};

}  // namespace meshbus::host
