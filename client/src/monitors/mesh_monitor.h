#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <flatbuffers/vector.h>

#include "client/src/base/handler_gate.h"
#include "client/src/base/handler_thread.h"
#include "client/src/monitors/mesh_progress.h"
#include "client/src/monitors/output_receiver.h"
#include "client/src/monitors/restart_judge.h"
#include "client/src/monitors/trouble_changes.h"
#include "common/address/current_mesh.h"
#include "common/loop/reactor.h"
#include "meshbus/proc_mesh.h"
#include "wire/forward.h"
#include "wire/supervision_generated.h"

namespace meshbus {

/// Follows one mesh: writes updates of agents into its MeshProgress, and calls the launcher's
/// handlers for what follows from them, each thing once.
///
/// Updates come in on the reactor's thread; handlers run on the handlers' thread.
///
/// Large because: all updates and orders of a mesh come in here; what follows from them is decided
/// by the classes of its members.
class MeshMonitor : public std::enable_shared_from_this<MeshMonitor> {
 public:
  using Time = RankTable::Time;
  struct Options {
    Handlers handlers;
    /// Output is streamed: the end of a mesh includes the end of its output.
    bool has_output = false;
    /// Its procs are plain: they take no calls.
    bool is_plain = false;
    std::chrono::milliseconds lease{0};
    std::chrono::milliseconds grace{0};
    RestartPolicy restart = {};
    /// See ProcSpec::spares.
    std::vector<HostAddr> spares = {};
    /// For the jitter of restarts.
    std::uint64_t seed = 0;
  };
  /// Carries out what a RestartPolicy decides; called on the reactor's thread.
  struct Orders {
    /// Begins the next incarnation of these ranks: RankReport::restarts of the table says which.
    std::function<void(const std::vector<std::uint64_t>& ranks)> start;
    /// Stops ranks that are to be restarted together with the one that has failed.
    std::function<void(const std::vector<std::uint64_t>& ranks, const RankReport& cause)> stop;
  };
  /// Carries out moves to spare hosts; called on the reactor's thread.
  struct Moves {
    /// Asks a spare whether it can take the ranks of a lost host; on_spare() follows.
    std::function<void(const SpareHosts::Pair& pair)> ask_spare = {};
    /// Begins the next incarnation of ranks of a lost host on a spare.
    std::function<void(const RestartJudge::Move& move)> move = {};
  };
  /// Tells an agent how much of its output is taken; called on the reactor's thread.
  using OutputTaken = std::function<void(wire::OutputTakenT taken)>;
  /// Called for each rank that ends, as long as it returns true: once, and once more when a failure
  /// that was to be followed by a restart (RankReport::is_restarting) turns out to be final.
  using EndListener = std::function<bool(const RankReport&)>;
  /// Called for each rank whose later attempt is ready, as long as it returns true.
  using AgainListener = std::function<bool(const RankReport&)>;

  MeshMonitor(Reactor& reactor, HandlerThread& handlers, ProcMeshRef mesh, Options options);

  /// As it is now, with ranks that are being started or stopped because it is resized. Lives as
  /// long as this.
  const ProcMeshRef& mesh() const noexcept { return mesh_.get(); }
  /// As it was after the last resize that is done. Lives as long as this.
  const ProcMeshRef& shown() const noexcept { return mesh_.shown(); }
  std::string name() const { return mesh().mesh().to_string(); }
  const Options& options() const noexcept { return options_; }
  bool has_restarts() const { return options_.restart.on != RestartPolicy::On::never; }
  /// What is known of the mesh. Any thread.
  const MeshProgress& progress() const noexcept { return progress_; }
  MeshProgress& progress() noexcept { return progress_; }

  // On the reactor's thread.

  void on_update(const HostAddr& from, const flatbuffers::Vector<const wire::RankState*>* ranks,
                 const flatbuffers::Vector<flatbuffers::Offset<wire::ExitReport>>* exit_reports,
                 const flatbuffers::Vector<const wire::LaunchTimes*>* launch = nullptr);
  /// As take_troubles().
  void on_troubles(const HostAddr& from, const TroubleUpdate& update);
  void on_output(const HostAddr& from, const wire::Output& output, OutputTaken taken);
  /// A host names the owner of the mesh there, and says whether ranks may begin another
  /// incarnation, and which may not.
  void on_ownership(const HostAddr& from, const wire::Ownership* ownership);
  /// An agent sends output to an address that this launcher does not have any more: the end of the
  /// mesh does not wait for it.
  void on_output_lost() { output_.on_moved(); }
  /// Whether output may have been lost and has to be asked for. Not again for a while.
  bool should_ask_for_output();
  /// Whether output of that host's ranks is still to come, also of ranks that have ended.
  bool is_output_due(const HostAddr& host);
  /// `is_proved`: nothing runs there any more; otherwise it is only silent.
  void lose(const HostAddr& host, const std::string& reason, bool is_proved);
  /// Only the ranks of that entry in its list of hosts.
  void lose_block(std::uint64_t host_index, const std::string& reason);
  /// Calls it for ranks that have ended already, too; for a failure with its exit report.
  void listen(EndListener listener);
  void listen_again(AgainListener listener) { again_listeners_.push_back(std::move(listener)); }
  /// Before arm(), when there is a policy.
  void set_orders(Orders orders) { orders_ = std::move(orders); }
  /// Before arm(), when there are spares.
  void set_moves(Moves moves) { moves_ = std::move(moves); }
  /// These ranks were ordered to begin an incarnation, and it is not wanted any more.
  void cancel_incarnations(const std::vector<std::uint64_t>& ranks);
  /// These ranks were ordered to begin an incarnation, and cannot.
  void fail_incarnations(const std::vector<std::uint64_t>& ranks, const Error& error);

  // Ranks of a lost host that move; on the reactor's thread.

  /// A spare has said whether it can take ranks.
  void on_spare(const SpareHosts::Pair& pair, bool can_take);
  /// The spare has the place of the lost host in `mesh`, which is the mesh from now on.
  void replace_host(ProcMeshRef mesh, const HostAddr& lost);
  /// These ranks begin where the mesh has them now; on_move hears of it.
  void move_in(const RestartJudge::Move& move);

  // A resize, one at a time; on the reactor's thread.

  /// The mesh gets the ranks that `mesh` has more than it. Until end_growth() or shrink() their
  /// failures are for the caller, not for the handlers.
  void begin_growth(ProcMeshRef mesh);
  /// They are ranks like all others from now on.
  void end_growth();
  /// The mesh is that from now on: the ranks that it has no more have ended. Their reports.
  std::vector<RankReport> shrink(ProcMeshRef mesh);
  /// Whether all output of that rank, and of those after it, was handed out, or none is expected.
  bool is_output_over_from(std::uint64_t rank);
  /// The handlers hear of a resize that is done.
  void tell_resized(ResizeReport report);

  // On any thread.

  /// From now on failures are for the handlers.
  void arm();
  /// No restart is decided until hand_over() or resume_restarts(). Returns the policy, with what
  /// was used of its budget, once all that was decided has begun. Waits. Errors: timeout.
  Result<RestartPlan> pause_restarts(std::chrono::milliseconds deadline);
  void resume_restarts();
  /// Goes on with what owners before have used of the budget. Before arm().
  void restore_restarts(const RestartPlan& plan);
  /// With what was used of the budget, for an order to a host.
  RestartPlan restart_plan() const;
  /// This launcher takes the mesh over, until end_taking(): lease and ends are its affair where the
  /// hosts say so.
  void begin_taking();
  void end_taking();
  /// The handlers are not called any more, and the lease is still renewed.
  void mute() { gate_.shut(); }
  /// The mesh is going to be handed over to that controller. Should the handover fail because a
  /// host did not answer, and be done later after all, then the hosts tell.
  void begin_handover(const ProcId& controller);
  /// Another owner answers for this mesh from now on; its output does not come here any more. With
  /// a RestartPolicy the new owner carries it out: ends are final when the hosts say that no
  /// restart may follow.
  void hand_over();
  /// The handlers are not called any more. Waits for one that is running, unless it is called by
  /// it.
  void abandon();
  /// These ranks (empty = all) begin no other incarnation.
  void stop_restarts(const RankSet& ranks);

 private:
  /// What settle() finds to do.
  struct Due;
  Due find_due(Time now);
  /// Calls handlers and orders for what is due, and arranges to be called again.
  void settle();
  void post_settle();
  void carry_out(RestartJudge::Judgement judgement);
  /// Calls a handler on its thread, unless the mesh is abandoned; then `then`, in any case.
  void call(std::function<void(const Handlers&)> handler, std::function<void()> then = {});
  void tell_states(const std::vector<RankReport>& reports);
  void tell_end(const RankReport& report);
  /// `ended`: failures that nobody was told of yet; `final_ones`: those that no restart follows.
  void tell_failures(std::vector<RankReport>& ended, const std::vector<RankReport>& final_ones);

  Reactor& reactor_;
  HandlerThread& handlers_;
  CurrentMesh mesh_;
  const Options options_;
  MeshProgress progress_;
  OutputReceiver output_;
  Reactor::TimerId timer_ = 0;
  std::vector<EndListener> listeners_;
  std::vector<AgainListener> again_listeners_;
  Orders orders_;
  Moves moves_;
  HandlerGate gate_;
};

}  // namespace meshbus
