#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshbus/accumulation.h"
#include "meshbus/actor_ref.h"
#include "meshbus/body_parts.h"
#include "meshbus/context.h"
#include "meshbus/proc_mesh.h"
#include "meshbus/rank_report.h"
#include "meshbus/result.h"
#include "meshbus/status.h"

/// Actors in the procs of a mesh, as a launcher has them. How they are written:
/// meshbus/actor.h.
///
///     auto procs = must(hosts.spawn("trainers", must(Extent::parse("gpu=4")),
///                                   {.kind = ProcKind::mesh, .command = {"./counters"}}));
///     auto tally = must(procs.spawn_actors("counter", "tally", "40"));
///         // one in every proc, or an error that names the ranks
///     auto sums = must(tally.call("add", "2", 10s));         // sums[3]: "42", or the error there
///     auto sum = must(tally.accumulate("add", "2", "sum"));  // added up at each host
///     to_text(*sum.value);                                   // "168"
///     tally.range("gpu", 0, 2)->send("reset", "");           // a slice: others may be dead
///     tally.stop();
namespace [[gnu::visibility("default")]] meshbus {

/// One actor of a mesh, as its proc, or the end of its proc, tells.
struct ActorReport {
  std::uint64_t rank = 0;  ///< Its rank in the actor mesh as that was made.
  std::string actor;       ///< ActorId: `tcp:h1:7420,trainers_3-13Se1Maqzryj,tally[0]`.
  std::string point;       ///< Where in the mesh: "host=0/2,gpu=1/4".
  std::string type;        ///< As its program has registered it.
  Status status;           ///< Unknown: its proc did not answer; `reason` says why.
  std::string reason;      ///< Why it was stopped, or what went wrong.
  std::string
      message;  ///< Failed: in the handler of which message. Empty: elsewhere, as `reason` tells.
  std::vector<std::string> causes;   ///< Failed: what was behind it, the nearest first.
  std::uint64_t generation = 0;      ///< Counts the changes; the larger one is the later one.
  std::uint64_t handled = 0;         ///< Messages and calls that it has handled.
  std::uint64_t dropped = 0;         ///< Messages that were in its mailbox at its end.
  std::optional<RankReport> proc{};  ///< Its proc has ended, and it with it: the exit report.
  std::uint64_t restarts = 0;  ///< ActorSpawnOptions::again: RankReport::restarts of its proc when
                               ///< it was made.

  /// "rank 1 (host=0/2,gpu=1/4): actor tally failed in message add: boom; because: ..."
  std::string describe() const;
};

/// A value or an error for each rank of a view, by ordinal.
using RankAnswers = std::vector<Result<std::string>>;

class ActorMeshImpl;

/// Actors that can be talked to: a mesh or a slice of it. Copies are cheap. It keeps the launcher's
/// connection, but no actor alive. All may be called from any thread.
class ActorView {
 public:
  /// Actors that somebody else has made. Errors: unroutable when this Context has no host mesh.
  [[nodiscard]] static Result<ActorView> attach(Context& context, ActorMeshRef ref);

  const ActorMeshRef& ref() const noexcept { return ref_; }         ///< Which ones: a plain value.
  std::uint64_t size() const noexcept { return ref_.num_ranks(); }  ///< How many.

  /// Slices. Errors: those of Region::range and Region::at.
  [[nodiscard]] Result<ActorView> range(std::string_view label, std::uint64_t begin,
                                        std::optional<std::uint64_t> end = std::nullopt,
                                        std::uint64_t step = 1) const;
  [[nodiscard]] Result<ActorView> at(std::string_view label, std::uint64_t index) const;

  /// Asks all of them by one cast (Context::cast) and waits for the answers: of each rank its own,
  /// or why there is none: call_error (its handler failed, or refused), no_such_port (no such
  /// actor, it has ended, or has no such handler; its rank was restarted, and it was not made
  /// again, or is not yet: the detail says so), no_such_proc, fate_unknown (its proc died
  /// meanwhile), queue_full, timeout, too_large, ... Errors of all: would_block, refused (after
  /// fork), host_unreachable.
  [[nodiscard]] Result<RankAnswers> call(
      const MessageType& type, const BodyParts& body,
      std::chrono::milliseconds deadline = std::chrono::seconds(30)) const;
  /// The same without waiting: `handler` gets the answer of each rank as it comes
  /// (Context::call_async). An error of all is told of every rank. The call ends with fate_unknown
  /// when the last mesh or view of these hosts goes.
  void call_async(const MessageType& type, const BodyParts& body, AsyncOptions options,
                  RankAnswerHandler handler) const;
  /// Asks all of them by one cast, like call(); but each host reduces the answers of its ranks, and
  /// tells once (or, with on_snapshot, now and then) what has come of it: what reaches this
  /// launcher does not grow with the number of ranks. `reducer`: one of Reducers::builtin(), or of
  /// AccumulateOptions::reducers. Handlers answer text, as to_text() writes it (meshbus/reducer.h),
  /// 256 KiB at most, and for overlays all of one host together. Errors by rank: as call(), but
  /// fate_unknown also when its host, or the agent there, has died meanwhile; and what the reducer
  /// says to an answer that it cannot take: configuration_error, too_large. Errors of all: as
  /// call(), not_exist (no such reducer), too_large. When it was ended early, a rank that was still
  /// out has neither a part nor an error.
  [[nodiscard]] Result<Accumulation> accumulate(const MessageType& type, const BodyParts& body,
                                                std::string_view reducer,
                                                const AccumulateOptions& options = {}) const;
  /// Casts them a message that nobody answers; returns when it is on its way. Errors: as those of
  /// Context::cast.
  [[nodiscard]] Result<void> send(const MessageType& type, const BodyParts& body) const;
  /// Asks their procs now. By ordinal; Unknown did not answer, NotExist never was.
  /// Errors: would_block, refused.
  [[nodiscard]] Result<std::vector<ActorReport>> states(
      std::chrono::milliseconds deadline = std::chrono::seconds(10)) const;

 private:
  friend class ActorMesh;
  friend class ActorMeshImpl;
  ActorView(std::shared_ptr<ActorMeshImpl> impl, ActorMeshRef ref)
      : impl_(std::move(impl)), ref_(std::move(ref)) {}
  /// By a reducer that hosts do not know.
  [[nodiscard]] Result<Accumulation> accumulate_here(const MessageType& type, const BodyParts& body,
                                                     Reducer reducer,
                                                     std::chrono::milliseconds deadline) const;

  std::shared_ptr<ActorMeshImpl> impl_;
  ActorMeshRef ref_;
};

/// How actors are stopped.
struct ActorStopOptions {
  std::string reason = "stop";  ///< Actors, logs and reports say it.
  /// For what is in the mailboxes, the handlers that run, and on_stop(); 0: what waits is dropped.
  std::chrono::milliseconds grace = std::chrono::seconds(10);
  /// For the whole stop. Default: grace + key stop.idle.
  std::optional<std::chrono::milliseconds> deadline = {};
};

/// Owns the actors of one name in a mesh of procs: when it goes, they are stopped (unless
/// ActorSpawnOptions::detach). Move-only. Made by ProcMesh::spawn_actors(). All may be called from
/// any thread.
class ActorMesh {
 public:
  ActorMesh(ActorMesh&&) noexcept;
  ActorMesh& operator=(ActorMesh&&) noexcept;
  /// Best effort: asks for a stop and does not wait. Call stop() to know the outcome.
  ~ActorMesh();

  /// All of them, to slice and to copy.
  const ActorView& all() const noexcept { return view_; }
  const ActorMeshRef& ref() const noexcept { return view_.ref(); }
  std::uint64_t size() const noexcept { return view_.size(); }

  /// As those of ActorView.
  [[nodiscard]] Result<ActorView> range(std::string_view label, std::uint64_t begin,
                                        std::optional<std::uint64_t> end = std::nullopt,
                                        std::uint64_t step = 1) const {
    return view_.range(label, begin, end, step);
  }
  [[nodiscard]] Result<ActorView> at(std::string_view label, std::uint64_t index) const {
    return view_.at(label, index);
  }
  [[nodiscard]] Result<RankAnswers> call(
      const MessageType& type, const BodyParts& body,
      std::chrono::milliseconds deadline = std::chrono::seconds(30)) const {
    return view_.call(type, body, deadline);
  }
  void call_async(const MessageType& type, const BodyParts& body, AsyncOptions options,
                  RankAnswerHandler handler) const {
    view_.call_async(type, body, std::move(options), std::move(handler));
  }
  [[nodiscard]] Result<Accumulation> accumulate(const MessageType& type, const BodyParts& body,
                                                std::string_view reducer,
                                                const AccumulateOptions& options = {}) const {
    return view_.accumulate(type, body, reducer, options);
  }
  [[nodiscard]] Result<void> send(const MessageType& type, const BodyParts& body) const {
    return view_.send(type, body);
  }
  [[nodiscard]] Result<std::vector<ActorReport>> states(
      std::chrono::milliseconds deadline = std::chrono::seconds(10)) const {
    return view_.states(deadline);
  }

  /// What has been heard so far, by rank; does not wait.
  std::vector<ActorReport> known() const;
  /// Waits until an actor has failed and its on_failure has run (that not when called from a
  /// handler). Errors: timeout; would_block, refused.
  [[nodiscard]] Result<ActorReport> wait_for_failure(std::chrono::milliseconds deadline) const;

  /// Ends them all and waits; what is in their mailboxes is handled first. (A stop overtakes
  /// messages that are under way: a call made first waits for these.) Stopped,
  /// or Failed when one was stuck, or had failed before, or its proc had. True to what happened:
  /// succeeds only when every one of them has ended. Errors: stop_error naming the ranks that have
  /// not. Stopping what has ended does nothing.
  [[nodiscard]] Result<std::vector<ActorReport>> stop(ActorStopOptions options = {});

 private:
  friend class ActorMeshImpl;
  explicit ActorMesh(ActorView view) : view_(std::move(view)) {}
  ActorView view_;
};

}  // namespace meshbus
