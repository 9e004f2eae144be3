#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "client/src/base/handler_gate.h"
#include "client/src/base/handler_thread.h"
#include "client/src/monitors/actor_revival.h"
#include "common/bus/bus.h"
#include "meshbus/actor_mesh.h"
#include "wire/actors_generated.h"
#include "wire/forward.h"

namespace meshbus {

/// What a proc says of an actor.
ActorReport to_report(const wire::ActorState& state);

/// Follows the actors of one mesh: what their procs tell of them, and the ends of these procs; and
/// tells the launcher of each failure once.
///
/// Updates come in on the reactor's thread, handlers run on the handlers' thread, and a caller that
/// waits waits on its own.
class ActorMonitor : public std::enable_shared_from_this<ActorMonitor> {
 public:
  using Failed = std::function<void(const ActorReport&)>;
  /// `lease`: of the actors, see ContextCore; 0 = none.
  ActorMonitor(HandlerThread& handlers, ActorMeshRef ref, std::string type, Failed on_failure,
               std::chrono::milliseconds lease);
  /// They are made again in ranks that were restarted. Before anybody else knows this monitor.
  void set_revival(std::string params, ActorRevival::Made on_made);
  bool has_revival() const noexcept { return revival_ != nullptr; }

  const ActorMeshRef& ref() const noexcept { return ref_; }

  // On the reactor's thread.

  /// The lease, the name by which agents know it, and whether any actor there needs it.
  std::chrono::milliseconds lease() const noexcept { return lease_; }
  std::string lease_name() const {
    return ref_.procs().mesh().to_string() + "," + ref_.name().to_string();
  }
  bool is_leased_on(const HostAddr& host) const;

  /// What the proc of that key says.
  void on_states(const wire::Envelope& from,
                 const flatbuffers::Vector<flatbuffers::Offset<wire::ActorState>>* states);
  void on_state(std::uint64_t rank, const wire::ActorState& state);
  /// A proc of the mesh has ended. Once more when it was to be restarted and is not.
  void on_proc_end(const RankReport& proc);
  /// A later attempt of a rank is ready.
  void on_proc_ready(const RankReport& proc);
  /// Makes the actors that are to be made again. `self`: as in resync().
  void make_again(Bus& bus, const std::string& self);
  /// No actor is made again from now on. The ranks where one is being made.
  std::vector<std::uint64_t> stop_revival();
  /// The same, and these are stopped as soon as they are made.
  void stop_unborn(Bus& bus);
  /// Asks the procs how the actors stand, and to be told of changes under this name. `host`: only
  /// those there; none: all.
  void resync(Bus& bus, const std::string& self, const std::optional<HostAddr>& host);

  // From any thread.

  /// From now on failures are told; before, the maker of the actors looks at them itself.
  void arm();
  /// Nobody will hear of these actors any more. Waits for a handler that is running, unless it is
  /// called by one.
  void abandon();
  bool is_abandoned() const;
  std::vector<ActorReport> reports() const;
  ActorReport report(std::uint64_t rank) const;
  /// Adds to what a rank of a view of these actors answered how its proc has ended, or that it is
  /// a later attempt without the actor.
  Error explain(const ActorMeshRef& view, std::uint64_t ordinal, const Error& error) const;
  /// Waits until a failure was told (for handlers: is known). Nothing at the deadline.
  std::optional<ActorReport> wait_failure(std::chrono::milliseconds deadline);

 private:
  /// What came of an order of the revival.
  void on_made(const ActorRevival::Order& order, const Result<ControlMessage>& answer);
  /// With mutex_ held: takes it over if it is news.
  bool apply(std::uint64_t rank, ActorReport report);
  /// With mutex_ held: tells it, when it is a failure that no restart follows.
  void tell(std::uint64_t rank);

  HandlerThread& handlers_;
  const ActorMeshRef ref_;
  const Failed on_failure_;
  const std::chrono::milliseconds lease_;
  /// Key of a proc -> rank; and its host's key.
  std::unordered_map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> rank_of_;

  HandlerGate gate_;
  /// Reactor thread. Null: they are not made again. That never changes.
  std::unique_ptr<ActorRevival> revival_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ActorReport> reports_;  // guarded by mutex_, like what follows
  std::vector<bool> told_;
  std::optional<ActorReport> first_failure_;
  bool is_first_told_ = false;
  bool is_armed_ = false;
  bool is_abandoned_ = false;
};

}  // namespace meshbus
