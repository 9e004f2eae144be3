#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/src/handler_gate.h"
#include "client/src/handler_thread.h"
#include "client/src/rank_table.h"
#include "client/src/restarter.h"
#include "common/loop/reactor.h"
#include "meshbus/proc_mesh.h"
#include "wire/forward.h"
#include "wire/supervision_generated.h"

namespace meshbus {

/// Follows one mesh: feeds its RankTable with news, and tells the launcher's handlers what they are due, each thing once.
///
/// News come in on the reactor's thread, handlers run on the handlers' thread, and whoever waits waits on its own.
class MeshMonitor : public std::enable_shared_from_this<MeshMonitor> {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    Handlers handlers;
    /// Output is streamed: the end of a mesh includes the end of its output.
    bool has_output = false;
    std::chrono::milliseconds lease{0};
    std::chrono::milliseconds grace{0};
    RestartPolicy restart = {};
    /// Of its jitter.
    std::uint64_t seed = 0;
  };
  /// How what a RestartPolicy decides is carried out; called on the reactor's thread.
  struct Orders {
    /// Begins the next life of these ranks: RankReport::restarts of the table says which.
    std::function<void(const std::vector<std::uint64_t>& ranks)> start;
    /// Stops these, which are to be started anew with the one that has failed.
    std::function<void(const std::vector<std::uint64_t>& ranks, const RankReport& cause)> stop;
  };
  /// Tells an agent how much of its output is taken; called on the reactor's thread.
  using OutputTaken = std::function<void(wire::OutputTakenT taken)>;

  MeshMonitor(Reactor& reactor, HandlerThread& handlers, ProcMeshRef mesh, Options options);

  const ProcMeshRef& mesh() const noexcept { return mesh_; }
  std::string name() const { return mesh_.mesh().to_string(); }
  const Options& options() const noexcept { return options_; }
  /// Whether nobody is interested any more.
  bool is_abandoned() const;

  // News, on the reactor's thread.

  void on_news(const HostAddr& from, const flatbuffers::Vector<const wire::RankState*>* ranks,
               const flatbuffers::Vector<flatbuffers::Offset<wire::ExitReport>>* exit_reports,
               const flatbuffers::Vector<const wire::LaunchTimes*>* launch = nullptr);
  /// Ranks that are in trouble, or not any more. `whole`: ranks of that host of which those are all that are in any; null: only changes.
  void on_troubles(const HostAddr& from, const flatbuffers::Vector<const wire::RankTrouble*>* troubles,
                   const flatbuffers::Vector<const wire::RankState*>* whole);
  void on_output(const HostAddr& from, const wire::Output& output, OutputTaken taken);
  /// Whether output may have got lost: all that came is handed out, more must come, and nothing has for a while. Not again for as long.
  bool should_ask_again();
  void lose(const HostAddr& host, const std::string& reason);
  /// Whether a host has ranks that are not terminal.
  bool is_alive_on(const HostAddr& host) const;
  /// Whether a host has ranks whose exit report has not come.
  bool has_untold_on(const HostAddr& host) const;
  /// Calls it for each rank that ends, and for those that have ended already: once, with its exit report when it failed. As long as it
  /// returns true.
  using EndListener = std::function<bool(const RankReport&)>;
  void listen(EndListener listener);
  /// Whether all is over: nothing more is expected from the agents.
  bool is_over() const;
  /// Before arm(), when there is a policy.
  void set_orders(Orders orders) { orders_ = std::move(orders); }
  /// How often it was started before its present life.
  std::uint64_t restarts_of(std::uint64_t rank) const;
  /// Whether that life is still wanted, and has not begun.
  enum class Start { wanted, unwanted, over };
  Start start_of(std::uint64_t rank, std::uint64_t restarts) const;
  /// These were ordered to begin a life, and have not: nobody wants it any more, or it is not to be had.
  void cancel_lives(const std::vector<std::uint64_t>& ranks);
  void fail_lives(const std::vector<std::uint64_t>& ranks, const Error& error);

  // From any thread.

  /// From now on failures are for the handlers; before, whoever makes the mesh looks at them itself.
  void arm();
  /// Somebody else answers for this mesh from now on; of its output nothing more comes.
  void hand_over();
  bool is_handed_over() const;
  /// Whether its ranks begin anew: there is a RestartPolicy.
  bool has_restarts() const { return restarter_.has_value(); }
  /// Nobody will hear of this mesh any more. Waits for a handler of it that is running, unless it is called by one.
  void abandon();
  /// These ranks (empty = all) begin no new life any more.
  void stop_restarts(const RankSet& ranks);
  /// A copy of the table.
  RankTable table() const;
  MeshOutcome outcome() const;
  /// The host agents have taken the order to start these ranks.
  void note_accepted(std::uint64_t host_index);
  bool is_accepted(std::uint64_t host_index) const;

  /// Waits until `done(table)`. False at the deadline. Not on the reactor's thread.
  bool wait(const std::function<bool(const RankTable&)>& done, std::chrono::milliseconds deadline);
  /// Waits until `done(table)`, as long as something changes at least every `idle`. False when nothing did.
  bool wait_while_changing(const std::function<bool(const RankTable&)>& done, std::chrono::milliseconds idle);
  /// Waits until a failure, or the end, was told; for handlers: is known. False at the deadline.
  bool wait_failure(std::chrono::milliseconds deadline);
  /// Waits until no news are expected of any rank and on_failure has run for each failure (that not when called from a handler). False at
  /// the deadline.
  bool wait_settled(std::chrono::milliseconds deadline);
  /// Waits until everything is over and, but for handlers who call this, was told. False at the deadline.
  bool wait_end(std::chrono::milliseconds deadline);

 private:
  /// Reactor's thread: tells what is due and arranges to be called again.
  void settle();
  /// What a RestartPolicy has to say to these failures, and to whatever else has ended.
  struct Judgement {
    std::vector<RankReport> failures;  // that are for good
    std::vector<RestartReport> restarts;
    std::vector<std::pair<std::vector<std::uint64_t>, RankReport>> stops;
    std::vector<std::uint64_t> starts;
  };
  Judgement judge(const std::vector<RankReport>& failures, Clock::time_point now);
  void carry_out(Judgement judgement);
  std::optional<Clock::time_point> next_restart(Clock::time_point now) const;
  void tell_state(const RankReport& report);
  void tell_end(const RankReport& report);
  bool is_output_over() const;
  void end_output_of(const std::vector<std::uint64_t>& ranks);
  struct OutputBatch;
  /// What of it is new; notes it as received.
  OutputBatch receive(const HostAddr& from, const wire::Output& output);

  Reactor& reactor_;
  HandlerThread& handlers_;
  const ProcMeshRef mesh_;
  const Options options_;
  Reactor::TimerId timer_ = 0;
  /// Reactor's thread.
  std::vector<EndListener> listeners_;
  Orders orders_;

  HandlerGate gate_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  RankTable table_;
  std::optional<Restarter> restarter_;
  /// Ranks that have ended without failing, of which the restarter has not heard; those that are not over, as far as it has; and failures
  /// that it has left for good when it was stopped.
  std::set<std::uint64_t> unjudged_;
  std::set<std::uint64_t> not_over_;
  std::vector<std::uint64_t> given_up_;
  std::uint64_t version_ = 0;
  std::vector<bool> accepted_;
  std::vector<bool> output_ended_;
  /// Output that waits for, or is in, the handler.
  std::uint64_t unhandled_ = 0;
  std::optional<Clock::time_point> last_output_;
  /// By rank: bytes of stdout and of stderr that have come without a gap.
  std::vector<std::array<std::uint64_t, 2>> received_;
  /// When output came last, or was asked for.
  Clock::time_point output_heard_{};
  /// When a gap was told.
  Clock::time_point output_asked_{};
  bool armed_ = false;
  bool abandoned_ = false;
  bool handed_over_ = false;
  /// Calls of on_failure that were posted, and those that are done.
  std::uint64_t failures_posted_ = 0;
  std::uint64_t failures_told_ = 0;
  bool end_posted_ = false;
  bool end_told_ = false;
};

}  // namespace meshbus
