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

#include "meshbus/binding.h"
#include "meshbus/context.h"
#include "meshbus/extent.h"
#include "meshbus/proc_mesh_ref.h"
#include "meshbus/proc_ref.h"
#include "meshbus/rank_report.h"
#include "meshbus/resize_order.h"
#include "meshbus/restart_policy.h"
#include "meshbus/result.h"
#include "meshbus/status_mesh.h"

namespace [[gnu::visibility("default")]] meshbus {

class Allocation;
class ProcAllocation;

/// How a proc becomes ready.
enum class ProcKind : std::uint8_t {
  plain,  ///< Any command line: ready when exec succeeded.
  mesh,   ///< A program that calls bootstrap(): ready when it has registered with its broker.
};

/// What happens to stdout and stderr, besides the tail that the host keeps.
enum class OutputMode : std::uint8_t {
  capture,  ///< Only the tail.
  stream,   ///< To Handlers::on_output, every byte; a slow handler slows the procs and loses
            ///< nothing.
};

enum class Stream : std::uint8_t { out = 1, err = 2 };  ///< Standard output and standard error.

/// One setrlimit(2).
struct ResourceLimit {
  static constexpr std::uint64_t none = UINT64_MAX;  ///< No limit.
  int resource = 0;                                  ///< RLIMIT_CORE and its like.
  std::uint64_t soft = none;                         ///< The limit that applies.
  std::uint64_t hard = none;                         ///< What the proc may raise it to.
};

/// Settings of a proc before it executes its command; those that are not given stay as the host has
/// them. A setting that cannot be applied is an error of the spawn that names it.
struct ProcSettings {
  std::vector<ResourceLimit> limits = {};  ///< Each resource once.
  std::optional<int> nice = {};            ///< -20 (first) to 19 (last).
  std::optional<unsigned> umask = {};      ///< 0 to 0777.
  std::vector<std::uint32_t> cpus = {};    ///< The CPUs that it may run on, by number.
  /// Limits of the proc and its descendants together, kept by a cgroup of its own. A host that
  /// cannot keep one refuses the spawn.
  std::optional<std::uint64_t> memory_limit =
      {};  ///< Bytes, swap included, from 1 MiB: a proc that passes it is killed
           ///< (Cause::out_of_memory).
  std::optional<std::uint64_t> pids_limit =
      {};  ///< Processes and threads, the proc itself included; more cannot be made.
  std::optional<double> cpu_limit =
      {};  ///< CPUs, from 0.01: 1.5 = 150 ms of CPU time in each 100 ms.
  std::optional<std::uint32_t> uid =
      {};  ///< Needs a host that runs as root. Only plain procs can do without our user's sockets.
  std::optional<std::uint32_t> gid = {};  ///< As uid.
  std::vector<std::uint32_t> groups =
      {};  ///< These supplementary groups and no others; with uid or gid and without this: none.
  bool same_session = false;  ///< A process group of its own, but no session.
  bool no_subreaper = false;  ///< Orphans of its descendants are not its children; they are ended
                              ///< when any proc of the host ends.
  bool no_new_privs = false;  ///< No setuid program gives it, or a descendant, more rights.
};

/// Whether ranks are one MPI job, and what their MPI library speaks to its launcher.
enum class Mpi : std::uint8_t {
  none,  ///< They are not: each rank of an MPI program would be rank 0 of 1.
  /// As the program is linked, seen from this machine; where that cannot be seen, both are served.
  automatic,
  pmi1,  ///< MPICH and what follows it.
  pmix,  ///< Open MPI.
};

/// What to start, and how.
struct ProcSpec {
  ProcKind kind = ProcKind::plain;  ///< How it becomes ready.
  /// argv. The first word is looked up in PATH on the host. Empty, for mesh procs only: this very
  /// executable, without arguments.
  std::vector<std::string> command = {};
  /// What to execute when that is not command[0].
  std::string program = {};
  /// The command is a template: each host starts it once, and the procs are copies of it, with what
  /// it has loaded. It speaks the protocol of agent/os/template_link.h, as `python3 -m
  /// meshbus.template` does. A copy has the settings, the limits and the containment of any proc.
  /// Not with procs_per_process above 1.
  bool is_template = false;
  /// Mesh procs only: so many consecutive ranks of a host share a process; the last one of a host
  /// may have fewer. 1 to 60. Each is a proc of its own all the same: with its address, its Ready,
  /// its actors, its exit code, and it can be stopped alone. They share what belongs to a process:
  /// environment (RANK and its like are those of the lowest rank; Proc::rank() is right in each),
  /// `settings`, pid, descendants, and stdout and stderr, which are reported as those of the lowest
  /// live rank. bootstrap() calls main() of its program once for each, on threads. A process that
  /// ends by itself (exit(), a crash, a signal) ends all of its procs, with its exit code or
  /// signal. Killing one of them cuts it off; should its main() or a handler then not return, it
  /// counts as ended after 5 s (Cause::unkillable), and its thread ends with the process. A
  /// restarted rank (`restart`) goes back into its process if that still lives. Ranks that
  /// ProcMesh::grow() adds go into a process of the mesh on their host that has room; otherwise,
  /// and in a program of an older release, they get a process of their own.
  std::uint32_t procs_per_process = 1;
  /// Wins over everything that the proc would inherit.
  std::vector<std::pair<std::string, std::string>> environment = {};
  /// Nothing inherited: `environment` and the variables that every proc gets (RANK, WORLD_SIZE,
  /// ...) only.
  bool clean_environment = false;
  /// On hosts of this machine (unix addresses), working directory and environment are those of this
  /// launcher at the spawn, unless they are given here. On other hosts they are the host agent's.
  bool follow_launcher = true;
  /// Working directory; empty: see follow_launcher.
  std::string directory = {};
  ProcSettings settings = {};  ///< What each proc is set to before it executes its command.
  Binding binding = {};        ///< On which CPUs each rank runs, and beside which GPU.
  OutputMode output = OutputMode::capture;  ///< Where its output goes.
  /// Ranks whose stdin is a pipe for ProcMesh::write_input(); the others read /dev/null. (An empty
  /// set means none here.)
  RankSet input_ranks = {};
  /// Mesh procs only: settings that the program has declared (ProcProgram::setting), by name, as
  /// text: {{"rate", "0.2"}}. They are those of each attempt of a rank; Context::settings() reads
  /// them as program.rate, and Context::change_settings() changes them while the rank runs. A name
  /// that the program does not have, or a value of another type: proc_creation_error, and the last
  /// lines of stderr say what there is.
  std::vector<std::pair<std::string, std::string>> program_settings = {};
  /// Between SIGTERM and SIGKILL. Default: key terminate.grace.
  std::optional<std::chrono::milliseconds> grace = {};
  /// A rank that is not ready by then is killed and failed; 0 = no limit. Default: key spawn.ready.
  std::optional<std::chrono::milliseconds> ready_limit = {};
  /// The procs end when this launcher has been silent for so long; 0 = no lease. Default: key lease
  /// on attached hosts; 0 on process hosts, which end with the launcher anyway.
  std::optional<std::chrono::milliseconds> lease = {};
  /// Whether spawn() waits until every rank is ready, and fails when one ends before. Without it
  /// spawn() returns when the hosts have accepted the order, and every end goes to the handlers.
  bool wait_ready = true;
  /// With wait_ready: a mesh in which some ranks failed is still a mesh; the failures go to
  /// Handlers::on_failure.
  bool partial = false;
  /// Whether ranks that end after spawn() has returned are restarted. Each incarnation of a rank
  /// has its own pid and exit report; rank, address and environment stay, but for MESHBUS_RESTARTS
  /// (0 in the first one). A rank is restarted only when its host confirms that the incarnation
  /// before has ended, with all descendants, and its output was handed to on_output. Actors are
  /// made again where that was asked for (ActorSpawnOptions::again). The owner of the mesh decides:
  /// this launcher, and after handover() the controller.
  RestartPolicy restart = {};
  /// Spare hosts, best first. When a host of the mesh is lost, its ranks are restarted on a spare,
  /// which takes its place: the ranks keep their numbers and have other addresses (ref()), and the
  /// others run on and hear of it as of a resize (ProcProgram::on_world). Needs `restart` with
  /// Gang::one. A host whose end is proved is left at once. One that is only silent may still run
  /// its ranks: it is left when the lease, the grace and 5 s are over since it was given up;
  /// without a lease, when its end is proved. No budget is used. Without a spare that answers the
  /// ranks have failed. Only while this launcher answers for the mesh.
  std::vector<HostAddr> spares = {};
  /// Plain procs only: makes them one MPI job. Each host gets a helper, as a mesh of its own named
  /// BASE_mpi, until they have ended. A rank that calls MPI_Abort, or ends with exit 0 between
  /// MPI_Init and MPI_Finalize, and a helper that is lost stop the other ranks, which would wait
  /// for ever: MeshOutcome::trouble says why. With `restart` the gang has to be Gang::all.
  /// handover(), grow() and shrink() are refused. Errors of spawn(): configuration_error: the
  /// program speaks something else, or what serves it is not installed.
  Mpi mpi = Mpi::none;
  /// Gives the spawn up while it waits for the ranks: they are stopped, and spawn() fails with
  /// proc_spawn_error. From any thread; no effect once spawn() has returned.
  std::stop_token stop = {};
  /// The uuid of the mesh's name. Meshes that share one are one job: `meshbus why` tells their
  /// story together. Their bases have to differ. Default: a uuid that no other mesh has.
  std::optional<std::uint64_t> uuid = {};
};

class ActorMesh;
struct ActorReport;
class ProcMesh;

/// How actors are made (meshbus/actor_mesh.h).
struct ActorSpawnOptions {
  /// In which procs: a slice, `procs.ref().range("gpu", 0, 2)->region()`. Default: in all.
  std::optional<Region> region = {};
  /// The time for all constructors to return. Default: key spawn.ready, or 30 s when that is none.
  std::optional<std::chrono::milliseconds> deadline = {};
  /// An actor or its proc has failed: called exactly once per rank, on the Context's handler
  /// thread. Without a handler the failure of an actor is printed to stderr, the mesh of procs is
  /// stopped, and this process exits with 125; that of a proc goes to Handlers::on_failure.
  std::function<void(const ActorReport&)> on_failure = {};
  /// The actors live as long as their procs, also without this launcher. Otherwise they are
  /// stopped: by their ActorMesh, or, if the launcher dies, by the hosts when the lease of the
  /// actors has lapsed (key lease; none where hosts end with the launcher).
  bool detach = false;
  /// In a rank that was restarted (ProcSpec::restart) the actor is made again, with the same
  /// params, as soon as the new attempt is ready, for as long as the ActorMesh is there: also when
  /// the mesh of procs was handed over. Calls that were under way to the attempt before end with
  /// its exit report; later ones reach the new actor once it is made, and get no_such_port before.
  /// on_failure is called for an end of a proc that no restart follows, and for an actor that could
  /// not be made again. Without this, calls to a restarted rank get no_such_port for good.
  bool again = false;
  /// With `again`: an actor was made again. Called for each, on the Context's handler thread.
  std::function<void(const ActorReport&)> on_again = {};
};

/// What a resize of a mesh has changed (ProcMesh::grow, ProcMesh::shrink).
struct ResizeReport {
  std::uint64_t size = 0;             ///< The ranks of the mesh now.
  RankSet came = {};                  ///< The ranks that it did not have before.
  std::vector<RankReport> gone = {};  ///< Those that it has no more, with their exit reports.
};

/// Ranks of a lost host that are being started on a spare (ProcSpec::spares).
struct MoveReport {
  RankSet ranks = {};                  ///< Those that are started there.
  HostAddr from = HostAddr::local(0);  ///< The host that is lost.
  HostAddr to = HostAddr::local(0);    ///< The spare that has its place in the mesh now.
};

/// Handlers of what happens to a launcher's procs. All run on the Context's handler thread, one at
/// a time, in order; they may call anything.
struct Handlers {
  /// A rank has failed and is not restarted: called exactly once per failed rank, when its exit
  /// report has come (at the latest 300 ms after its end), and before on_end. Without a handler:
  /// the exit report is printed to stderr, the mesh is stopped, and this process exits with the
  /// mesh's exit code.
  std::function<void(const RankReport&)> on_failure = {};
  /// Bytes that a rank wrote: whole lines, in order per rank. Valid during the call. With it the
  /// output is OutputMode::stream.
  std::function<void(std::uint64_t rank, Stream stream, std::string_view bytes)> on_output = {};
  /// Every change of a rank: each once, in order, with the report as it was then. The exit report
  /// of an end may come later.
  std::function<void(const RankReport&)> on_state = {};
  /// Called once, when every rank is terminal, none of them is restarted, and all output was handed
  /// to on_output.
  std::function<void(const MeshOutcome&)> on_end = {};
  /// A rank has ended and is restarted (ProcSpec::restart), so on_failure is not called.
  std::function<void(const RestartReport&)> on_restart = {};
  /// Ranks of a lost host, of which on_restart has told, are being started on a spare.
  std::function<void(const MoveReport&)> on_move = {};
  /// A host has found a live rank slow, frozen or stuck in a handler (RankReport::trouble), or in
  /// order again.
  std::function<void(const RankReport&)> on_trouble = {};
  /// The mesh has grown or shrunk: the ranks that came are ready, those that are gone have ended.
  std::function<void(const ResizeReport&)> on_resize = {};
  /// Somebody orders another size (HostMesh::grow_mesh(), `meshbus grow`), and is told what this
  /// returns; `return order.carry_out();` does what is ordered. Without a handler such orders are
  /// refused. Unlike the others it runs on a thread of its own, one order at a time, and may take
  /// its time. The destructor of the mesh gives an order up that is under way, and waits for this.
  std::function<Result<ResizeReport>(const ResizeOrder&)> on_resize_order = {};
};

/// How ranks are stopped, which, and why.
struct StopOptions {
  std::string reason = "stop";  ///< Part of the exit reports.
  /// Between SIGTERM and SIGKILL; 0 = SIGKILL at once. Default: that of the ProcSpec.
  std::optional<std::chrono::milliseconds> grace = {};
  /// For the whole stop. Default: grace + key stop.idle.
  std::optional<std::chrono::milliseconds> deadline = {};
  /// Empty = all ranks.
  RankSet ranks = {};
  /// The rank whose end is the reason: the exit reports say that these ends are its consequences.
  std::optional<std::uint64_t> because = {};
};

/// How a mesh grows: by whole blocks, which are the ranks that it has on one of its hosts.
struct GrowOptions {
  /// One block on each, in this order. A host that the mesh has already, or that is named twice,
  /// gets another block. Others are reached as those of the mesh are.
  std::vector<HostAddr> hosts = {};
  /// Without `hosts`: so many blocks on the hosts that the mesh has, on those with the fewest
  /// first.
  std::uint64_t blocks = 1;
  /// Gives it up while it waits for the new ranks: they are stopped, and grow() fails with
  /// proc_spawn_error. From any thread.
  std::stop_token stop = {};
};

/// How a mesh shrinks: by whole blocks, the last ones.
struct ShrinkOptions {
  std::uint64_t blocks = 1;                         ///< How many; one is left at least.
  std::string reason = "the mesh is made smaller";  ///< Part of the exit reports.
  /// Between SIGTERM and SIGKILL; 0 = SIGKILL at once. Default: that of the ProcSpec.
  std::optional<std::chrono::milliseconds> grace = {};
  /// For the stop of the ranks. Default: grace + key stop.idle.
  std::optional<std::chrono::milliseconds> deadline = {};
};

/// How a mesh is handed over.
struct HandoverOptions {
  /// The procs live on when they have no owner any more. Otherwise they are stopped when the lease
  /// of the new owner lapses.
  bool detach = false;
  /// Default: the key lease of the controller.
  std::optional<std::chrono::milliseconds> lease = {};
  /// For the whole handover. Questions without an answer are repeated until then.
  std::chrono::milliseconds deadline = std::chrono::seconds(10);
};

/// How a mesh is taken over (HostMesh::take_over).
struct TakeOverOptions {
  /// Default: key lease.
  std::optional<std::chrono::milliseconds> lease = {};
  /// For all of it.
  std::chrono::milliseconds deadline = std::chrono::seconds(10);
};

/// How long to wait for a status.
struct WaitOptions {
  /// For the whole wait.
  std::chrono::milliseconds deadline = forever;
  /// Without a change of any rank; nothing = no limit.
  std::optional<std::chrono::milliseconds> idle = {};
};

/// Owns a mesh of procs: its destructor stops them. Move-only; once it was moved from, every call
/// fails with refused. Made by HostMesh::spawn(), or with hosts of its own by allocate().
class ProcMesh {
 public:
  /// A mesh on hosts that are there for it alone: HostMesh::allocate() and HostMesh::spawn() in
  /// one. It holds the allocation: a stop() of all ranks ends the hosts too, and so does the end of
  /// this object. Errors, after which the hosts have been let go: as those two.
  [[nodiscard]] static Result<ProcMesh> allocate(Context& context, std::string_view base,
                                                 std::unique_ptr<Allocation> hosts,
                                                 const Extent& per_host, ProcSpec spec,
                                                 Handlers handlers = {});
  ProcMesh(ProcMesh&&) noexcept;
  ProcMesh& operator=(ProcMesh&&) noexcept;
  /// Best effort: asks for a stop and does not wait. Call stop() to know the outcome.
  ~ProcMesh();

  /// Name, region and hosts: a plain value that gives every address. After a resize it is another
  /// one; the one before stays valid as long as this object, and names the ranks that it named.
  const ProcMeshRef& ref() const noexcept;
  /// The number of ranks.
  std::uint64_t size() const noexcept;

  /// How the ranks were bound when they were started (ProcSpec::binding).
  const BindingMap& bindings() const noexcept;

  /// Asks the host agents now. All ranks, by rank; those of a host that did not answer are
  /// ProcState::unknown, with the reason in words. Errors: would_block, refused (after fork).
  [[nodiscard]] Result<std::vector<RankReport>> status(
      std::chrono::milliseconds deadline = std::chrono::seconds(10)) const;
  /// What has been heard so far; does not wait.
  MeshOutcome known() const;

  /// Waits until every rank has reached at least that status, or has ended; that may be by failing,
  /// so look at the statuses. Errors: timeout naming the missing ranks and their statuses;
  /// out_of_range for unknown, which satisfies no wait; would_block, refused (after fork).
  [[nodiscard]] Result<StatusMesh> wait_status(Status::Kind minimum,
                                               WaitOptions options = {}) const;

  /// Waits until every rank is terminal, none of them is restarted, and exit reports and output
  /// were handed out (output not when called from a handler). Errors: timeout naming the ranks that
  /// are left and their states.
  [[nodiscard]] Result<MeshOutcome> wait(std::chrono::milliseconds deadline);
  /// Waits until a rank has failed and its on_failure has run (that not when called from a
  /// handler), or all are terminal. Errors: as wait().
  [[nodiscard]] Result<MeshOutcome> wait_for_failure(std::chrono::milliseconds deadline);

  /// Ends ranks and waits. Succeeds only when every one of them is terminal. Errors: stop_error
  /// naming the ranks that are not, with their states and hosts. Stopping an ended rank does
  /// nothing. A stopped rank is not restarted. When every rank has ended, on_failure of those that
  /// had failed before has run, unless it takes longer than 2 s or is the caller. A mesh that holds
  /// its hosts is at its end when all of them are: then stop_error may name hosts, as
  /// HostMesh::shutdown() does. Also out_of_range: there are no such ranks; configuration_error: a
  /// block without any.
  [[nodiscard]] Result<MeshOutcome> stop(StopOptions options = {});
  /// The same without waiting: on_state and on_end report the rest. `options.deadline` is not used.
  void request_stop(StopOptions options = {});

  /// Adds ranks at the end of the first axis, started as the others were: with their program,
  /// environment, output, restart policy and lease; none of them has a stdin. Returns when they are
  /// ready and every host of the mesh knows it: calls, casts and slices of ref() reach them then.
  /// Ranks, addresses and references of the others stay as they are; their procs hear of it
  /// (ProcProgram::on_world), and WORLD_SIZE of attempts that begin later is the new one. Should it
  /// fail, the mesh is as it was, and what was started of it is stopped. Errors:
  /// proc_creation_error, proc_spawn_error: as HostMesh::spawn(), about the new ranks; refused: the
  /// ranks lie unevenly on the hosts or the blocks do not fill an index of the first axis, the mesh
  /// was handed over, taken over, stopped or has ended, another resize is under way, or a host is
  /// of a release without this; host_unreachable and others: a host that does not answer, by name;
  /// would_block.
  [[nodiscard]] Result<ResizeReport> grow(GrowOptions options = {});
  /// Stops the ranks of the last blocks as stop() does, and takes them out of the mesh: an end that
  /// is no failure, and that no restart follows. Their streamed output was handed out when this
  /// returns. Later messages to them come back (no_such_proc). grow() may use their numbers again:
  /// as later attempts of them where they were on the same host. Errors: refused, as grow();
  /// stop_error naming the ranks that are left: then the mesh has all its ranks still, some of them
  /// stopped; host_unreachable: the mesh is smaller, and a host, by name, has not heard of it.
  [[nodiscard]] Result<ResizeReport> shrink(ShrinkOptions options = {});

  /// Gives the mesh to a controller (`HOST,controller`), for hosts that do not end with this
  /// launcher. From then on the controller keeps it alive, with or without this launcher, and
  /// neither this object nor the end of the Context stops it. Returns when every host of the mesh
  /// has confirmed it. Handlers are called as long as this object exists; the default handler only
  /// prints failures. Streamed output ends with what was handed out; the rest is in the logs
  /// (HostMesh::logs). A RestartPolicy goes with the mesh, with what is used of its budget: the
  /// controller carries it out, on_restart is not called any more, and on_failure and on_end are
  /// when no restart can follow. A second call changes nothing: it succeeds when that controller
  /// still answers for the mesh, and fails with refused, naming the owner, when it does not.
  /// Errors: refused (the mesh holds its hosts; a host, or the controller, is of a release without
  /// restart policies; or by the controller: it does not watch all these); otherwise the hosts that
  /// have not confirmed, by name. Then this launcher still owns the whole mesh: it renews the
  /// leases on all hosts, if ProcSpec::lease is not 0, restarts ranks, and may try again with the
  /// same controller; should the missing hosts confirm it later, is_handed_over() tells.
  [[nodiscard]] Result<void> handover(const ProcId& controller, HandoverOptions options = {});
  /// Whether handover() has succeeded.
  bool is_handed_over() const;

  /// Sends a signal to the process groups of ranks (empty = all that are alive). Returns when the
  /// kernels have them; a rank that is not started yet gets its signal when it is. Errors:
  /// not_exist, timeout, io_error (the kernel refused), ...: the first one of all hosts; the detail
  /// says which ranks got it, and which did not. out_of_range: there are no such ranks;
  /// configuration_error: a block without any, or no such signal.
  [[nodiscard]] Result<void> signal(const RankSet& ranks, int signal,
                                    std::chrono::milliseconds deadline = std::chrono::seconds(10));

  /// Writes to the stdin of a rank of ProcSpec::input_ranks; returns when its pipe has taken all.
  /// One writer at a time per rank, at most 512 KiB a call. Errors: not_exist when it closed its
  /// stdin or ended; too_large; timeout.
  [[nodiscard]] Result<void> write_input(std::uint64_t rank, std::string_view bytes,
                                         std::chrono::milliseconds deadline = forever);
  /// End of file for the stdin of a rank.
  [[nodiscard]] Result<void> close_input(
      std::uint64_t rank, std::chrono::milliseconds deadline = std::chrono::seconds(10));

  /// The proc of a rank, alive or not. Errors: out_of_range.
  [[nodiscard]] Result<ProcRef> proc(std::uint64_t rank) const;
  /// The proc at a point, every axis given: `at({{"host", 0}, {"gpu", 1}})`. Errors: out_of_range,
  /// configuration_error for an unknown or missing axis.
  [[nodiscard]] Result<ProcRef> at(
      const std::vector<std::pair<std::string, std::uint64_t>>& coordinates) const;

  /// Makes an actor of a type that the program of these procs has registered in each of them.
  /// `name`: a Name that each incarnation of a proc gives to one actor, so a second call with the
  /// same type and params gets the same actors. `params` are for the constructors. Errors:
  /// actor_type_not_registered, actor_spawn_error with the ranks where it failed and why; those
  /// that were made are stopped then; parse_error (no name); refused (the name is taken);
  /// would_block, refused (after fork).
  [[nodiscard]] Result<ActorMesh> spawn_actors(const std::string& type, std::string_view name,
                                               std::string_view params,
                                               ActorSpawnOptions options = {});

  class Impl;
  explicit ProcMesh(std::unique_ptr<Impl> impl);  ///< For the library.

 private:
  friend class ProcAllocation;
  friend class MpiSpawn;
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshbus
