#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshbus/address.h"
#include "meshbus/body_parts.h"
#include "meshbus/proc_mesh_ref.h"
#include "meshbus/proc_setting.h"
#include "meshbus/result.h"

namespace [[gnu::visibility("default")]] meshbus {

class ContextCore;

/// For deadlines: as long as it takes. What waits still ends when its host is lost or its Context
/// goes.
inline constexpr std::chrono::milliseconds forever = std::chrono::milliseconds::max();

/// A message of Context::send(), cast() or ActorView::send() that had left and has not arrived.
struct ReturnedMessage {
  /// The receiver; nothing when it is not a rank of a mesh that this launcher has started.
  std::optional<ProcId> to = {};
  std::uint64_t key = 0;   ///< The receiver as ProcId::key(); always there.
  std::uint32_t port = 0;  ///< The port there.
  bool is_cast = false;    ///< It was one copy of a cast.
  /// no_such_proc, no_such_port, no_such_host, queue_full, expired, link_lost, refused;
  /// fate_unknown: it may have arrived, and the proc that would know is gone.
  Error error = {ErrorCode::none, {}};
};

/// For an asynchronous call.
struct AsyncOptions {
  std::chrono::milliseconds deadline = std::chrono::seconds(30);  ///< For the answer.
  /// Cancels the call, from any thread: what has no answer yet gets fate_unknown, because the procs
  /// may have the call already.
  std::stop_token stop = {};
  /// Hands the answer over as soon as it comes, on the thread that has received it: the library's
  /// own, or one of the program that waits in another call. The handlers' thread need not wake for
  /// it, which spares some 15 % of a short call (docs/performance.md). An error that is known at
  /// once comes on the calling thread, before the call returns. For a handler that only puts the
  /// answer somewhere: it must not wait, throw, nor call anything of this library, nor need a lock
  /// that a caller holds; it is destroyed on such a thread.
  bool is_direct = false;
};
/// Receives the answer of an asynchronous call: called exactly once, whatever happens, also when
/// the Context goes. On the Context's handlers' thread, unless AsyncOptions::is_direct; only what
/// can never reach it (an object that was moved from, a child of fork()) is answered by the calling
/// thread, before the call returns. What it throws is logged.
using AnswerHandler = std::function<void(Result<std::string>)>;
/// The same for a call to many ranks: called exactly once for each rank, by ordinal, as its answer
/// comes. The call is over with the last one; with no rank at all the handler is never called.
using RankAnswerHandler = std::function<void(std::uint64_t ordinal, Result<std::string>)>;

/// What a launcher sets.
struct ContextOptions {
  /// Settings as `--set` would give them, stronger than environment and file: {{"lease", "10s"}}.
  /// `meshbus config` lists the keys.
  std::vector<std::pair<std::string, std::string>> settings = {};
  /// For a launcher that is itself a proc of a mesh: Proc::launcher_settings(), what its own
  /// launcher had set. Weaker than all that is set here, in the environment or in a file; only the
  /// defaults are weaker still.
  std::vector<std::pair<std::string, std::string>> inherited = {};
  /// Called for each message that comes back, on the handlers' thread. Without it they are counted
  /// (Context::num_returned) and logged, in one line a second at most.
  std::function<void(const ReturnedMessage&)> on_returned = {};
};

/// A launcher's place on the bus. It hides a thread that owns all sockets, and a second one on
/// which your handlers run, in order.
///
/// Everything may be called from any thread, handlers included. Calls that wait take a deadline
/// (less than 1 ms counts as 1 ms) and block the caller; from the hidden socket thread they fail
/// with would_block. After a fork the child's copy refuses everything (refused); only destroying it
/// is allowed.
///
/// It connects to a broker when the first host mesh is made. Meshes keep the threads alive, so they
/// may outlive their Context.
class Context {
 public:
  /// Errors: configuration_error naming key, value and source; io_error.
  [[nodiscard]] static Result<Context> create(ContextOptions options = {});
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;
  /// Leaves the bus in order. From then on no handler runs, when no mesh of this Context is left.
  ~Context();

  /// Bytes for a port of a proc, and its answer. Errors: call_error (the handler there failed),
  /// no_such_proc, no_such_port (also: a plain proc), no_such_host, timeout, fate_unknown,
  /// queue_full, too_large, would_block, refused (after fork).
  [[nodiscard]] Result<std::string> call(const ProcId& proc, std::uint32_t port,
                                         const BodyParts& body, std::chrono::milliseconds deadline);
  /// The same without waiting: `handler` gets the answer. The body is copied or on its way when
  /// this returns. As many calls as the queue to the broker takes may be open at a time; none of
  /// them needs a thread. Errors, for the handler: as call(); fate_unknown when it was cancelled,
  /// or the last mesh of that host went, before the answer was there. It may be called by
  /// handlers.
  void call_async(const ProcId& proc, std::uint32_t port, const BodyParts& body,
                  AsyncOptions options, AnswerHandler handler);
  /// Bytes for a port of a proc, without an answer. Returns when they are on their way;
  /// above 1 MiB, where they go before their message, when the receiver has them. Errors:
  /// queue_full, too_large, unroutable, refused; above 1 MiB also those of call().
  [[nodiscard]] Result<void> send(const ProcId& proc, std::uint32_t port, const BodyParts& body);

  /// Bytes for a port of every rank of a mesh or of a slice of it:
  /// `context.cast(*mesh.ref().at("host", 0), 1, "hello")`. One message leaves here; brokers make
  /// the copies, one for each host and there one for each rank. A cast and a message of send()
  /// arrive in the order in which they were sent; each rank learns its place in the view
  /// (Incoming::point in meshbus/proc.h). Returns when it is on its way, above about 1 MiB
  /// when all ranks have it or have failed; with no rank at all it succeeds at once. Errors: as
  /// send(), for all of it.
  [[nodiscard]] Result<void> cast(const ProcMeshRef& to, std::uint32_t port, const BodyParts& body);
  /// The same with an answer from each rank, by ordinal: an answer or an error of its own, as of
  /// call() for one proc; a rank that is dead takes nothing from the others. Errors of the whole:
  /// too_large, would_block, refused (after fork), unroutable.
  [[nodiscard]] Result<std::vector<Result<std::string>>> call(const ProcMeshRef& to,
                                                              std::uint32_t port,
                                                              const BodyParts& body,
                                                              std::chrono::milliseconds deadline);

  /// The same without waiting: `handler` gets the answer of each rank as it comes. An error of the
  /// whole is told of every rank.
  void call_async(const ProcMeshRef& to, std::uint32_t port, const BodyParts& body,
                  AsyncOptions options, RankAnswerHandler handler);

  /// What the procs of a mesh, or of a slice of it, go by while they run, by ordinal:
  /// terminate.grace, session.away, log.level. They answer at once, also while the program
  /// computes. Errors by rank: as those of call(); no_such_port (a proc of an older release).
  /// Errors of the whole: as call().
  [[nodiscard]] Result<std::vector<Result<std::vector<ProcSetting>>>> settings(
      const ProcMeshRef& of, std::chrono::milliseconds deadline = std::chrono::seconds(10));
  /// Changes some of them, from now on, in each proc all or none; what each goes by then. Weaker
  /// than the environment of a proc. Errors by rank, besides those of settings():
  /// configuration_error (a key that procs do not go by while they run, a value that it cannot
  /// have, one that the environment decides), unauthorised (for that it takes an operator's key).
  [[nodiscard]] Result<std::vector<Result<std::vector<ProcSetting>>>> change_settings(
      const ProcMeshRef& of, std::vector<std::pair<std::string, std::string>> changes,
      std::chrono::milliseconds deadline = std::chrono::seconds(10));

  /// A setting as text: `setting("terminate.grace")` is "10s". Errors: configuration_error when
  /// there is no such key.
  [[nodiscard]] Result<std::string> setting(std::string_view key) const;
  /// What is suspicious about the settings but no error, one line each, for people.
  std::vector<std::string> warnings() const;

  /// How many messages of send() and cast() have come back, or are of unknown fate, so far.
  std::uint64_t num_returned() const noexcept;

  /// For the other classes of this library.
  const std::shared_ptr<ContextCore>& core() const noexcept { return core_; }

 private:
  [[nodiscard]] Result<std::vector<Result<std::vector<ProcSetting>>>> ask_settings(
      const ProcMeshRef& of, const std::string& body, std::chrono::milliseconds deadline);
  explicit Context(std::shared_ptr<ContextCore> core);
  std::shared_ptr<ContextCore> core_;
};

}  // namespace meshbus
