#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "meshbus/actor_ref.h"
#include "meshbus/address.h"
#include "meshbus/body_parts.h"
#include "meshbus/point.h"
#include "meshbus/proc_mesh_ref.h"
#include "meshbus/program_setting.h"
#include "meshbus/result.h"
#include "meshbus/shared_body.h"

/// The library inside the procs of a mesh: finds out its rank, keeps in touch with the
/// host's agent, and lets ranks call each other.
///
///     #include <meshbus/proc.h>
///     #include <future>
///     #include <iostream>
///     using namespace std::chrono_literals;
///
///     int main() {
///       meshbus::ProcProgram program;
///       std::promise<void> asked;
///       program.on(1, [&](meshbus::Proc&, const meshbus::Incoming& call) {
///         asked.set_value();
///         return std::string(call.body.rbegin(), call.body.rend());
///       });
///       program.main([&](meshbus::Proc& proc) {
///         // My right neighbour says "olleh".
///         auto answer = proc.call((proc.rank() + 1) % proc.world_size(), 1, "hello", 10s);
///         std::cout << (answer ? *answer : answer.error().to_string()) << std::endl;
///         // A rank leaves when this returns: not before my left neighbour has asked.
///         asked.get_future().wait_for(10s);
///         return answer ? 0 : 1;
///       });
///       meshbus::bootstrap_or_die(program);
///     }
///
/// Started as `meshbus run --mesh -n 4 -- ./hello`, or spawned from a launcher: meshbus/context.h.
///
/// Threads. The library has one hidden thread for everything that moves bytes, so a proc stays
/// reachable while main() computes; a thread that waits in call() does its work meanwhile. Handlers
/// run on one other thread, one at a time, in the order in which messages came; main() runs on the
/// thread that called bootstrap(). The hidden thread takes no signal of the program; that
/// of handlers does, and while a signal's handler runs there, messages may wait.
///
/// Several procs of one process (ProcSpec::procs_per_process): all of this is there once for each,
/// main() and handlers of each on threads of their own and at the same time, while bootstrap()
/// waits for them. What `program` captures by reference they share. exit() ends all of them while
/// the others' threads run; it destroys only statics inside of functions that were first called
/// after bootstrap(). quick_exit() destroys nothing.
///
/// How a proc ends. When main() returns, with its result as the exit code: handlers that are queued
/// run, messages that were sent leave, and the process exits as by std::exit(). When it is asked to
/// stop (by its agent, SIGTERM or SIGINT): see ProcProgram::on_stop. When its agent or broker is
/// away for longer than the launcher's settings allow (10 s): exit 75 and one line on stderr.
///
/// Fork. A child made by fork() without exec is not this proc: everything here fails with `refused`
/// in it. Programs that it executes do not inherit the proc's identity either.
namespace [[gnu::visibility("default")]] meshbus {

class Actor;
class ActorContext;
class Proc;
namespace mesh_proc {
class ActorSystem;
class ProgramSettings;
class Runtime;
}  // namespace mesh_proc

/// What a call or a message brings to a handler. Valid during the handler; share() is for later.
struct Incoming {
  std::string_view body;   ///< What was sent.
  std::uint32_t port = 0;  ///< Which handler gets it.
  /// A call: somebody waits for what the handler returns. A message: what it returns is dropped, an
  /// error is logged.
  bool is_call = false;
  /// The sender, by keys (meshbus/key.h): written by its broker, so nobody can speak as another.
  /// Proc::rank_of() makes a rank of it.
  std::uint64_t source_proc = 0;
  std::uint64_t source_host = 0;  ///< Its host.
  /// The deadline of a call: its caller waits no longer. Calls that are late already never come to
  /// a handler.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  /// In a cast: where this rank is in the view that was addressed.
  std::optional<Point> point;
  /// What keeps `body`, for share(); null: nothing does.
  const std::shared_ptr<const void>* owner = nullptr;

  /// The body, for as long as one likes: above 64 KiB without a copy. One above 1 MiB counts for
  /// the large bodies that this proc has room for, 2 x message.limit in all, until its last share
  /// goes: copy what is kept for long (meshbus/large_text.h).
  SharedBody share() const { return SharedBody::keep(body, owner); }
};

/// A message that this proc sent and that came back.
struct Undelivered {
  /// The receiver, when it is a rank of this proc's mesh.
  std::optional<std::uint64_t> rank;
  std::uint32_t port = 0;  ///< The port that it was for.
  /// Why: no_such_proc, no_such_host, queue_full, link_lost, ...
  Error error;
};

/// How a proc was asked to stop.
struct StopRequest {
  int code = 0;        ///< The exit code that the proc is to have: 128+n for a signal n.
  std::string reason;  ///< Why, for people.
  /// When the proc ends itself, wherever it is. Its agent's question leaves it half of the grace of
  /// the stop; the other half is for SIGTERM and SIGKILL. A signal leaves it terminate.grace, since
  /// nobody says when SIGKILL comes. time_point::max(): never.
  std::chrono::steady_clock::time_point until;
};

/// How actors of one type live (meshbus/actor.h).
struct ActorOptions {
  /// What waits for such an actor at most; a further one gets queue_full. One message always
  /// fits.
  std::size_t mailbox_count = 16'384;
  std::size_t mailbox_bytes = std::size_t{16} * 1024 * 1024;  ///< In bytes.
};

/// What a mesh program does. Fill it in, then give it to bootstrap() or join(). A plain value.
class ProcProgram {
 public:
  using Handler = std::function<Result<std::string>(
      Proc&, const Incoming&)>;  ///< What takes a call or a message.

  /// A handler for calls and messages to `port`: 1 or above, one for each port; port 0 is the
  /// library's own. What it returns answers a call; an Error, or an exception, becomes a call_error
  /// with its text at the caller. Calls to a port without handler fail with no_such_port there.
  ProcProgram& on(std::uint32_t port, Handler handler);

  /// The body of the program. Runs once this proc is Ready; what it returns is the exit code.
  /// Without one the proc serves its handlers until it is told to stop.
  ProcProgram& main(std::function<int(Proc&)> body);

  /// Runs on the handlers' thread, before what is queued there, when this proc is asked to stop: by
  /// its agent, or by SIGTERM or SIGINT unless the program had a handler of its own for these
  /// before bootstrap(). Then, within the grace: without a main(), the handlers that were queued
  /// run and the proc exits; with one, main() is expected to return, since Proc::stop_requested()
  /// is true now. A main() that has neither on_stop nor ever asked stop_requested() or
  /// wait_for_stop() would not notice: its process ends at once, as SIGTERM ends any other program.
  /// At the end of the grace the process exits, wherever it is. The exit code is that of the
  /// request: 128+n for a signal.
  ProcProgram& on_stop(std::function<void(Proc&, const std::string& reason)> handler);

  /// Runs on the handlers' thread for each message of send() that came back. Without it that is
  /// logged on stderr.
  ProcProgram& on_undelivered(std::function<void(Proc&, const Undelivered&)> handler);

  /// Declares a setting of this program, `[A-Za-z][A-Za-z0-9_.-]*`, 63 characters at most:
  /// launchers set it at the spawn (ProcSpec::program_settings) and change it while the proc runs
  /// (Context::change_settings, `meshbus config NAME --change program.rate=0.2`). Its type is that
  /// of `standard`, its default. A spawn that sets what the program has not declared, or a value of
  /// another type, fails: bootstrap() says what there is. At most 48 of them.
  ///
  ///     program.setting("rate", 0.1, "learning rate").setting("batch", 32, "samples in a step");
  ///     ... *proc.setting<double>("rate") ...
  ProcProgram& setting(const std::string& name, SettingValue standard, std::string help);
  /// Runs on the handlers' thread for each of these that was changed, with its new value. Of
  /// changes that come faster than this returns, a setting's last one is told.
  ProcProgram& on_setting(
      std::function<void(Proc&, const std::string& name, const SettingValue& value)> handler);

  /// Runs on the handlers' thread when the mesh of this proc has grown or shrunk
  /// (ProcMesh::grow()); `mesh` is the new one, as Proc::mesh() is from then on. Ranks that came
  /// are ready. Of two resizes in short order it may hear of the last one only.
  ProcProgram& on_world(std::function<void(Proc&, const ProcMeshRef& mesh)> handler);

  /// Launchers may make actors of that type in this proc, under that name ([A-Za-z0-9_.:-], 1 to 63
  /// characters). Needs meshbus/actor.h.
  template <typename Type>
  ProcProgram& actor(const std::string& name, const ActorOptions& options = {});
  using ActorFactory = std::function<std::unique_ptr<Actor>(
      ActorContext&, std::string_view params)>;  ///< Makes an actor; may throw.
  /// The same for whatever makes one.
  ProcProgram& actor_type(const std::string& name, ActorFactory factory,
                          const ActorOptions& options = {});
  /// How many actors run at the same time, 1 to 64; default 4. Handlers that run for longer than a
  /// second do not count.
  ProcProgram& actor_threads(unsigned threads);
  /// SIGTERM and SIGINT are the program's own: the library installs no handlers. The question of
  /// its agent still comes to on_stop(); a proc that is not Ready yet is not asked, but gets
  /// SIGTERM.
  ProcProgram& leave_signals();

 private:
  friend class mesh_proc::ActorSystem;
  friend class mesh_proc::ProgramSettings;
  friend class mesh_proc::Runtime;
  struct ActorType {
    ActorFactory factory;
    ActorOptions options;
  };
  struct Setting {
    SettingValue standard;
    std::string help;
  };

  std::map<std::uint32_t, Handler> handlers_;
  std::map<std::string, ActorType, std::less<>> actor_types_;
  unsigned actor_threads_ = 4;
  bool leaves_signals_ = false;
  std::map<std::string, Setting, std::less<>> settings_;
  std::function<void(Proc&, const std::string&, const SettingValue&)> on_setting_;
  std::function<void(Proc&, const ProcMeshRef&)> on_world_;
  std::function<int(Proc&)> main_;
  std::function<void(Proc&, const std::string&)> on_stop_;
  std::function<void(Proc&, const Undelivered&)> on_undelivered_;
  /// What is wrong with the above; bootstrap() says it.
  std::string mistake_;
};

/// Whether this process was started as a proc of a mesh and has called neither bootstrap() nor
/// join() yet: MESHBUS_BOOTSTRAP is set.
bool is_mesh_proc() noexcept;

/// Makes this process the proc it was started as, and runs `program`. Never returns then; otherwise
/// says why not: not_exist when this is not a mesh proc; configuration_error, io_error,
/// malformed_message, version_mismatch when it is but what it was given cannot be used. Call it
/// early: from main(), before the program makes threads. A single binary that is launcher and proc
/// calls this first and goes on as launcher when it returns not_exist.
Result<void> bootstrap(const ProcProgram& program);

/// Makes this process the proc it was started as, and returns once it is Ready, or was asked to
/// stop already: the caller goes on as the main() of the proc. For programs that have a main loop
/// of their own, and for other languages.
///
///     meshbus::ProcProgram program;
///     program.on(1, ...);
///     const auto proc = meshbus::join(program);
///     if (!proc) ...
///     while (!(*proc)->stop_requested()) step(**proc);
///     return 0;
///
/// The proc leaves the bus in exit(), and so after the end of the process' main(). Handlers run
/// until then: what they use has to outlive main(), as a static does. The exit code is what the
/// program exits with, also after a stop (StopRequest::code says which one was asked for).
/// `program` has handlers and the like, but no main(). Never null. Errors: as bootstrap();
/// configuration_error: it has a main(); refused: the process was started as several procs.
Result<Proc*> join(ProcProgram program);

/// bootstrap() for programs that are nothing but mesh procs: prints the error and exits with 78
/// (EX_CONFIG).
[[noreturn]] void bootstrap_or_die(const ProcProgram& program);

/// This process as a proc of its mesh: its name, and its ways to other ranks. The program gets it
/// in main() and in handlers; there is one, and it lives as long as the process. Every function may
/// be called from any thread of the program.
class Proc {
 public:
  Proc(const Proc&) = delete;
  Proc& operator=(const Proc&) = delete;

  /// 0 .. world_size()-1; the same as $RANK.
  std::uint64_t rank() const noexcept;
  /// Ranks of the mesh now; the same as $WORLD_SIZE, until the mesh grows or shrinks.
  std::uint64_t world_size() const noexcept;
  /// Where this rank is: `host=1/2,gpu=3/4`.
  Point point() const;
  const ProcId& id() const noexcept;
  /// The whole mesh as it is now. What this has returned before stays valid, and names the ranks
  /// that it named. Slice it to address parts of it: `proc.mesh().at("host", 0)->create_rank(i)`
  /// are ranks for call() and send().
  const ProcMeshRef& mesh() const noexcept;
  /// What the launcher had set when it made this mesh, if that was not the default:
  /// {{"terminate.grace", "5s"}}. A launcher of its own in this proc takes it along:
  /// ContextOptions::inherited.
  const std::vector<std::pair<std::string, std::string>>& launcher_settings() const noexcept;
  /// A setting of the program (ProcProgram::setting), as it is now. Errors: configuration_error:
  /// the program has none of that name, or it is of another type.
  template <typename T>
  Result<T> setting(std::string_view name) const {
    auto value = setting_value(name);
    if (!value) return fail(value.error());
    if (auto* const typed = std::get_if<T>(&*value)) return std::move(*typed);
    return fail(ErrorCode::configuration_error,
                "setting " + std::string(name) +
                    " of the program is of another type: " + std::string(form_of(*value)));
  }
  /// The same, of whatever type.
  Result<SettingValue> setting_value(std::string_view name) const;
  /// Which rank of this mesh sent that; nothing when it came from elsewhere (a launcher, another
  /// mesh).
  std::optional<std::uint64_t> rank_of(const Incoming& incoming) const;

  /// Asks a rank, this one included, and waits for its answer. Errors: call_error (its handler
  /// failed; the detail is its text), no_such_port, no_such_proc and other undeliverables, timeout,
  /// fate_unknown (a connection broke meanwhile), out_of_range (no such rank), too_large (above
  /// message.limit, of this proc or the other), queue_full, would_block (a handler that calls its
  /// own proc waits for itself), refused (after fork). Handlers may call others, but run one at a
  /// time: two procs whose handlers call each other wait until the deadline.
  Result<std::string> call(std::uint64_t rank, std::uint32_t port, const BodyParts& body,
                           std::chrono::milliseconds deadline);
  /// The same for any proc, of another mesh say: `proc.call(*other_mesh.proc_at(3), 1, "hello",
  /// 10s)`.
  Result<std::string> call(const ProcId& to, std::uint32_t port, const BodyParts& body,
                           std::chrono::milliseconds deadline);
  /// Asks and goes on: many ranks can be asked at once. The future is always filled, at the latest
  /// soon after the deadline.
  std::future<Result<std::string>> call_async(std::uint64_t rank, std::uint32_t port,
                                              const BodyParts& body,
                                              std::chrono::milliseconds deadline);
  std::future<Result<std::string>> call_async(const ProcId& to, std::uint32_t port,
                                              const BodyParts& body,
                                              std::chrono::milliseconds deadline);

  /// Asks an actor, of this proc or any other, from outside of actors: main(), or a thread of the
  /// program's own. `then` gets the answer once, in a turn of the loop, or at once what is known at
  /// once: it must neither wait nor take a lock held around calls of this library. Errors: call().
  void call_async(const ActorId& to, const MessageType& type, const BodyParts& body,
                  std::chrono::milliseconds deadline,
                  std::function<void(Result<std::string>)> then);
  /// Tells an actor, as ActorContext::send. A call may overtake a body above 1 MiB.
  Result<void> send(const ActorId& to, const MessageType& type, const BodyParts& body);

  /// Sends a message that nobody answers. Messages from here to one receiver arrive in the order in
  /// which they were sent. When more is waiting to leave than the queue holds (16 MiB or 16,384
  /// messages), waits for room, `patience` at most. A body of 32 KiB and more to a proc of the
  /// same host that reads slowly waits up to 20 ms of that first. A body above 1 MiB goes before
  /// its message: this waits until the receiver has it, `patience` at most (then fate_unknown;
  /// would_block where call() says it). Errors: out_of_range, too_large, queue_full, refused. What
  /// happens to the message later is told by ProcProgram::on_undelivered.
  Result<void> send(std::uint64_t rank, std::uint32_t port, const BodyParts& body,
                    std::chrono::milliseconds patience = std::chrono::seconds(10));
  Result<void> send(const ProcId& to, std::uint32_t port, const BodyParts& body,
                    std::chrono::milliseconds patience = std::chrono::seconds(10));

  /// Sends a message to every rank of a mesh or of a slice of it:
  /// `proc.cast(*proc.mesh().at("host", 0), 1, "hello")`. One message leaves here; brokers make the
  /// copies, one for each host and there one for each rank. A cast and a message of send() arrive
  /// in the order in which they were sent; each rank learns its place in the view
  /// (Incoming::point). One above about 1 MiB goes before its message, as with send(): this waits
  /// until all ranks have it or have failed. Errors: as send(), for all of it. What does not reach
  /// a rank is told by ProcProgram::on_undelivered, rank by rank.
  Result<void> cast(const ProcMeshRef& to, std::uint32_t port, const BodyParts& body,
                    std::chrono::milliseconds patience = std::chrono::seconds(10));
  /// Asks every rank of a view and waits for all answers, by ordinal: each is an answer or an error
  /// of its own, as of call(). Errors of the whole: too_large, would_block (a handler asks its own
  /// proc), refused (after fork).
  Result<std::vector<Result<std::string>>> call(const ProcMeshRef& to, std::uint32_t port,
                                                const BodyParts& body,
                                                std::chrono::milliseconds deadline);

  /// Whether this proc was asked to stop: a main() with a loop looks here. See
  /// ProcProgram::on_stop.
  bool stop_requested() const noexcept;
  /// The request, once there is one: its exit code, and until when this proc may go on. As
  /// stop_requested(), it says that main() looks.
  std::optional<StopRequest> stop_request() const;
  /// Waits until then, at most so long; whether it was asked.
  bool wait_for_stop(std::chrono::milliseconds at_most) const;

 private:
  friend class mesh_proc::Runtime;
  explicit Proc(mesh_proc::Runtime& runtime) : runtime_(runtime) {}

  mesh_proc::Runtime& runtime_;
};

}  // namespace meshbus
