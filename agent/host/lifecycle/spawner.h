#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <unordered_set>

#include "agent/host/lifecycle/bootstrap_writer.h"
#include "agent/host/lifecycle/error_files.h"
#include "agent/host/lifecycle/progress_files.h"
#include "agent/host/model/proc_table.h"
#include "agent/keeper/keeper_client.h"

namespace meshbus::host {

/// Hands procs to the keeper, in order, in batches, so many at a time (spec 5.2). Lives on the
/// reactor's thread.
class Spawner {
 public:
  /// `on_failed`: this proc could not even be handed over, and why.
  Spawner(ProcTable& table, keeper::KeeperClient& keeper, const BootstrapWriter& bootstraps,
          const ProgressFiles& progress, std::size_t in_flight, bool parent_death_signal,
          std::function<void(Proc&, const Error&)> on_failed)
      : table_(table),
        keeper_(keeper),
        bootstraps_(bootstraps),
        progress_(progress),
        errors_(progress.folder()),
        in_flight_(in_flight),
        parent_death_signal_(parent_death_signal),
        on_failed_(std::move(on_failed)) {}

  void add(Proc& proc) { queue_.push_back(proc.id); }
  /// Hands over what there is room for, once half of the room is free. Call it at the end of each
  /// turn.
  void pump();
  /// The keeper has answered for one proc that this agent, or another one, has asked for.
  void on_birth(std::uint64_t id) { asked_.erase(id); }
  std::size_t asked() const noexcept { return asked_.size(); }

 private:
  /// The next procs of the queue that belong to one assignment.
  std::vector<Proc*> next_batch();
  /// A live proc in whose process so many more have room, and `first`, one of them, belongs; 0:
  /// there is none. `joined`: how many more each process gets by this batch already.
  static std::uint64_t find_beside(const MeshSpec& spec, const Proc& first, std::size_t count,
                                   std::map<std::uint32_t, std::size_t>& joined);
  /// One request to the keeper; procs whose bootstrap cannot be written fail and are not in
  /// `asked`.
  os::SpawnBatch make_batch(const Assignment& assignment, const std::vector<Proc*>& procs,
                            std::vector<Proc*>& asked);

  ProcTable& table_;
  keeper::KeeperClient& keeper_;
  const BootstrapWriter& bootstraps_;
  const ProgressFiles& progress_;
  ErrorFiles errors_;
  std::size_t in_flight_;
  bool parent_death_signal_;
  std::function<void(Proc&, const Error&)> on_failed_;
  std::deque<std::uint64_t> queue_;  ///< Procs that were cancelled meanwhile are passed over.
  std::unordered_set<std::uint64_t> asked_;
};

}  // namespace meshbus::host
