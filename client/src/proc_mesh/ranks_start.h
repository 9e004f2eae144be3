#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "client/src/proc_mesh/proc_mesh_impl.h"
#include "client/src/proc_mesh/restart_orders.h"
#include "client/src/proc_mesh/spawn_recipe.h"

namespace meshbus {

/// Starts the ranks of a mesh, at its spawn all, when it grows those of its last blocks, and waits
/// until they are ready. For one thread, which may wait.
class RanksStart {
 public:
  /// Where it begins.
  struct First {
    std::uint64_t host = 0;
    std::uint64_t rank = 0;
  };
  /// All of it outlives this. `stop`: see ProcSpec::stop.
  RanksStart(ContextCore& core, Connection& connection, MeshMonitor& monitor, SpawnRecipe& recipe,
             const std::stop_token& stop, First first)
      : core_(core),
        connection_(connection),
        monitor_(monitor),
        recipe_(recipe),
        stop_(stop),
        first_(first) {}

  /// Sends the orders. Errors: what a host says, with its name.
  Result<void> order();
  /// Errors: proc_creation_error, proc_spawn_error, with the ranks.
  Result<void> wait_ready();
  /// Ends what was started, and settles what was not. Errors: stop_error.
  Result<void> undo(const std::string& reason);

  /// What each host was sent, when its ranks may be started anew.
  RestartOrders::Messages take_sent() { return std::move(sent_); }
  BindingMap take_bindings() { return std::move(bindings_); }

 private:
  const ProcSpec& spec() const noexcept { return recipe_.spec(); }
  bool is_partial() const noexcept { return first_.rank == 0 && spec().partial; }
  /// Its answer. A host is asked again as long as what had the number of a rank before is not over
  /// there.
  Result<ControlMessage> await(std::uint64_t host, Connection::Answer answer);
  /// Ended before all were ready. A plain proc that is done already was ready; one that somebody
  /// has stopped is not what was asked for.
  bool is_fallen(const RankReport& rank) const {
    return rank.rank >= first_.rank && rank.is_terminal() && !RankTable::is_done(rank);
  }
  bool has_fallen(const RankTable& table) const;
  std::vector<std::uint64_t> undecided(const RankTable& table) const;
  /// Those that are to be started.
  std::vector<RankReport> meant(const RankTable& table) const;
  std::optional<RankReport> first_failure(const RankTable& table) const;
  /// The error of a start that was given up.
  tl::unexpected<Error> given_up(std::shared_ptr<const std::vector<RankReport>> ranks) const;
  tl::unexpected<Error> creation_error(const RankTable& table) const;

  ContextCore& core_;
  Connection& connection_;
  MeshMonitor& monitor_;
  SpawnRecipe& recipe_;
  const std::stop_token stop_;
  /// Connection::losses() when the hosts were asked.
  std::uint64_t losses_ = 0;
  const First first_;
  RestartOrders::Messages sent_;
  BindingMap bindings_;
};

}  // namespace meshbus
