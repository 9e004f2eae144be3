#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/host/lifecycle/binding_plan.h"
#include "agent/host/lifecycle/drains.h"
#include "agent/host/lifecycle/launch_monitor.h"
#include "agent/host/lifecycle/spawner.h"
#include "agent/host/records/ledger_writer.h"
#include "agent/os/limit_places.h"
#include "common/config/config.h"

namespace meshbus::host {

/// Takes requests for procs: which ranks are new, which are to be restarted, and whether this host
/// can start them (docs/decisions/0019-restarts.md). Lives on the reactor's thread.
class SpawnService {
 public:
  struct Options {
    std::string host;  ///< For people.
    Config config;
    Environment environment;  ///< What procs inherit.
    os::LimitPlaces limits;
  };
  /// What it works with; all of it outlives it.
  struct Parts {
    Reactor& reactor;
    ProcTable& table;
    keeper::KeeperClient& keeper;
    ProcEnding& ending;
    OutputReader& outputs;
    SpoolSlots& slots;
    LedgerWriter& ledger;
    const Drains& drains;
    LaunchMonitor& launches;
    const ProgressFiles& progress;
  };
  SpawnService(const Parts& parts, BootstrapWriter bootstraps, Options options);

  /// What became of a request.
  struct Spawned {
    std::uint64_t started = 0;   ///< Ranks.
    WireBindings bindings = {};  ///< All its ranks; none: they are not bound.
    std::vector<std::string> notes = {};
  };
  /// Starts the ranks that are not there yet, and restarts those that are over and were started
  /// fewer times than the request says (MeshSpec::restarts). `entry`: the request for the ledger
  /// (LedgerWriter::request_entry). `topology`: by what ranks are bound that were not before; null:
  /// there are none. Errors: refused (the mesh is another one, or its scope is drained, or ranks
  /// cannot be bound here), too_large, configuration_error (limits that this host cannot keep),
  /// would_block (a former incarnation is not over), not_exist (nothing is known of one).
  Result<Spawned> spawn(MeshSpec spec, std::string entry, const topology::Topology* topology);
  /// Restarts ranks of a mesh as they were started first; `restarts`: as often as that. All of
  /// them, or none. Errors: as spawn().
  Result<Spawned> restart(Mesh& mesh, const std::vector<RankBlock>& ranks, std::uint32_t restarts);
  /// The mesh has that layout from now on, unless it has a later one. Returns whether it is the
  /// layout now. Errors: refused (a rank that is not in it lives here, or it does not follow from
  /// the present one).
  Result<bool> resize(Mesh& mesh, const MeshLayout& layout);
  /// What all ranks of that request share.
  std::shared_ptr<const Assignment> make_assignment(const MeshSpec& spec) const;
  /// A proc that another agent had asked for, perhaps.
  void resume(Proc& proc) { spawner_.add(proc); }
  void on_birth(std::uint64_t id) { spawner_.on_birth(id); }
  /// Hands procs to the keeper. Call it at the end of each turn.
  void pump() { spawner_.pump(); }
  LineTail::Limits tail() const noexcept { return tail_; }
  /// The directory for the log files of that mesh; empty: this host keeps none.
  Result<std::string> find_log_directory(const std::string& mesh) const;

 private:
  /// A rank that is to be started, and how often it was started before.
  struct Fresh {
    std::uint64_t rank = 0;
    std::uint32_t restarts = 0;
  };
  Result<std::vector<Fresh>> find_fresh_ranks(const MeshSpec& spec, const Mesh* mesh) const;
  /// A mesh that is not here yet, with its log directory and relay. Errors: configuration_error.
  Result<Mesh*> add_mesh(MeshSpec spec);
  /// How the ranks of the request are to be bound: those that were bound before, as they were.
  Result<BindingPlan> plan(const Assignment& assignment, const Mesh* mesh,
                           const topology::Topology* topology) const;
  TakenPlaces find_taken(const MeshSpec& spec) const;
  Result<void> check_over(const Proc& former) const;
  Result<void> check_known(const Mesh& mesh, const MeshSpec& spec) const;
  /// Whether the mesh can have that layout. Errors: refused.
  Result<void> check_layout(const Mesh& mesh, const MeshLayout& layout) const;
  Result<void> start(Mesh& mesh, std::uint64_t rank,
                     const std::shared_ptr<const Assignment>& assignment, std::int64_t asked_ns);
  Proc* restart_proc(Proc& former, const std::shared_ptr<const Assignment>& assignment);

  Parts parts_;
  Options options_;
  LineTail::Limits tail_;
  std::size_t most_procs_;
  BootstrapWriter bootstraps_;
  Spawner spawner_;
};

}  // namespace meshbus::host
