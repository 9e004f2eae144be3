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

#include "meshbus/allocator.h"
#include "meshbus/context.h"
#include "meshbus/events.h"
#include "meshbus/extent.h"
#include "meshbus/host_mesh_ref.h"
#include "meshbus/logs.h"
#include "meshbus/proc_mesh.h"
#include "meshbus/region.h"
#include "meshbus/result.h"
#include "meshbus/status_mesh.h"

namespace [[gnu::visibility("default")]] meshbus {

/// How running hosts are found.
struct AttachOptions {
  /// For finding the hosts.
  std::chrono::milliseconds deadline = std::chrono::seconds(5);
  /// Without it all hosts are part of the mesh as soon as the broker of one has accepted us. For
  /// looking, not for spawning.
  bool require_all = true;
  /// Hosts that cannot be reached yet, because somebody is still starting them, are tried again for
  /// so long.
  std::chrono::milliseconds wait{0};
};

/// A drain in progress, or a hold.
struct DrainReport {
  std::string owner;       ///< The owner whose procs are drained; empty = every owner.
  std::string mesh;        ///< The mesh that is drained; empty = every mesh.
  std::string reason;      ///< As given.
  std::string requester;   ///< The ProcId of the requester.
  bool hold = false;       ///< It lasts when all have ended, until HostMesh::resume().
  std::uint64_t left = 0;  ///< Procs that have not ended.
};

/// A process of a host.
struct HostRoleReport {
  std::string role;      ///< "warden", "keeper", "broker" or "agent".
  std::int64_t pid = 0;  ///< Its process.
  std::string release;   ///< Its meshbus, as it says itself; may be empty.
  std::string program;   ///< The file that it was started from.
};

/// The last upgrade of a host (`meshbus upgrade`).
struct HostUpgradeReport {
  /// How it went. `rolled_back`: the programs of before were started again. `failed`: these did
  /// not become ready in time either.
  enum class Outcome { running, done, rolled_back, failed, unknown };
  std::uint32_t number = 0;            ///< Counted from 1 since the host started.
  Outcome outcome = Outcome::unknown;  ///< As the host said it when it was asked.
  std::string programs;                ///< The folder of the programs.
  std::string requester;               ///< The ProcId of the requester.
  std::string detail;                  ///< In words.
};

/// One host, by its own report.
struct HostReport {
  HostAddr host = HostAddr::local(0);  ///< Its address.
  /// Not `none`: the host did not answer, for the reason in `problem`; the rest is empty then.
  ErrorCode code = ErrorCode::none;
  std::string problem;            ///< As text.
  std::string version;            ///< The version of its meshbus.
  std::uint64_t incarnation = 0;  ///< The incarnation of its agent.
  std::int64_t pid = 0;           ///< The pid of its agent.
  std::string containment;        ///< "cgroup v2", "sweep"
  std::uint64_t live = 0;         ///< Procs that are not ended.
  std::string node;               ///< The machine's name, for people.
  std::uint64_t refused =
      0;  ///< Requests that were refused because their sender's role was too low.
  std::vector<DrainReport> drains = {};  ///< Those that are under way or held.
  /// It is proved that the host has ended (its process has), so nothing runs there any more. Known
  /// of hosts that this Context has started; a host that is only silent may still run procs.
  bool has_ended = false;
  /// How often its broker had to be restarted since its agent started: procs survive that. And when
  /// it was last; 1970 = never.
  std::uint32_t broker_restarts = 0;
  std::chrono::system_clock::time_point broker_restarted = {};  ///< See broker_restarts.
  /// ProcId of the controller that answers for the host (HostMesh::handover); empty: none does.
  std::string owner = {};
  /// Its processes. Empty: it does not tell.
  std::vector<HostRoleReport> roles = {};
  std::optional<HostUpgradeReport> upgrade = {};  ///< None: there was none.
};

/// One mesh as the hosts know it.
struct MeshReport {
  std::string name;                 ///< With its uuid.
  Region region;                    ///< All its ranks, and how they are arranged.
  std::vector<HostAddr> hosts;      ///< All hosts of that mesh, also those that were not asked.
  std::string owner;                ///< ProcId of the launcher or controller that owns it.
  ProcKind kind = ProcKind::plain;  ///< Plain procs, or mesh procs.
  std::string command;              ///< For people.
  std::vector<RankReport> ranks;    ///< Those on the hosts that were asked and answered, by rank.
  std::uint32_t revision = 0;       ///< How often it has grown or shrunk.

  /// The whole mesh. Errors: parse_error, configuration_error: the host's report makes no mesh.
  [[nodiscard]] Result<ProcMeshRef> ref() const;
};

/// What is on a set of hosts.
struct MeshListing {
  std::vector<MeshReport> meshes;       ///< By name.
  std::vector<HostReport> unreachable;  ///< Hosts that did not answer.
};

/// What is to be drained, and how.
struct DrainOptions {
  std::string mesh = {};   ///< Only this one, by its whole name; empty = every mesh.
  std::string owner = {};  ///< Only procs of this owner, by its ProcId; empty = of every owner.
  std::string reason = "drain";  ///< Part of exit reports and refusals.
  /// Nothing of that scope is started afterwards, until HostMesh::resume().
  bool hold = false;
  /// Between SIGTERM and SIGKILL; 0 = SIGKILL at once. Default: key terminate.grace.
  std::optional<std::chrono::milliseconds> grace = {};
  /// For the whole drain. Default: the grace, once for each terminate.in_flight (key) procs, and
  /// key stop.idle.
  std::optional<std::chrono::milliseconds> deadline = {};
};

/// What a drain did.
struct DrainSummary {
  std::uint64_t attempted = 0;  ///< Procs that were alive.
  std::uint64_t ok = 0;         ///< Attempted ones that have ended.
  std::uint64_t failed = 0;     ///< Attempted ones that are still there.
};

/// Entries of event logs of hosts.
struct EventListing {
  std::vector<HostEvent> events;        ///< By time. Each end of a rank once.
  std::vector<HostReport> unreachable;  ///< Hosts that did not answer.
};

/// What a shutdown did.
struct ShutdownSummary {
  std::uint64_t attempted =
      0;  ///< Procs that were alive. (Those of a host whose last answer was lost are not counted.)
  std::uint64_t ok = 0;      ///< Attempted ones that have ended.
  std::uint64_t failed = 0;  ///< Attempted ones that are still there.
  std::uint64_t hosts = 0;   ///< Hosts that are down now.
};

/// How hosts are started inside of procs (HostMesh::inside).
struct InsideOptions {
  /// All of it counts. `program` is a path or a name on the outer hosts; empty: as for hosts of
  /// this machine, or found in PATH there when the outer hosts are reached over tcp.
  HostOptions host = {};
  /// Words in front of `meshbus host`, such as {"unshare", "--mount"}. What they run hands stdin
  /// and stdout on and becomes the host, or ends after it; otherwise its end would prove nothing.
  std::vector<std::string> wrapper = {};
  /// For the host, over what it would inherit (ProcSpec::environment).
  std::vector<std::pair<std::string, std::string>> environment = {};
  /// What bounds each proc, so all of its host: memory, CPUs, user and the like.
  ProcSettings settings = {};
  /// Called for each event of the inner hosts (AllocationSpec::on_event).
  std::function<void(const AllocationEvent&)> on_event = {};
};

/// Owns a set of hosts. Move-only; once it was moved from, every call fails with refused; all may
/// be called from any thread.
class HostMesh {
 public:
  /// One host for this launcher alone, axis `host`: a child of this process, with real processes as
  /// procs. It ends with this process, however that ends. Errors: as process().
  [[nodiscard]] static Result<HostMesh> local(Context& context, HostOptions options = {});
  /// Starts one host process per rank on this machine, in parallel: `meshbus host`, each in a
  /// session of its own. They end with this process, however it ends. With no rank at all it
  /// succeeds at once. Errors: configuration_error (no such program, bad options), io_error,
  /// timeout; naming the host's rank and its last words.
  [[nodiscard]] static Result<HostMesh> process(Context& context, const Extent& hosts,
                                                HostOptions options = {});
  /// Starts a host on each of these machines, in parallel, axis `host` in that order. They are
  /// reached over tcp, with keys that are made for them, pass through the commands' stdin, and are
  /// written into files only where the hosts run; no host but these knows them. They end when their
  /// commands' stdin does, so with this process, however it ends. Of the options, `containment`,
  /// `settings` and `ready_limit` count. Errors: as process(), naming the machine, and what to do
  /// where that is known.
  [[nodiscard]] static Result<HostMesh> remote(Context& context, std::vector<RemoteHost> hosts,
                                               HostOptions options = {});
  /// Hosts that are procs of `outer`: it spawns a mesh of procs there, `per_host` on each host, and
  /// each of these becomes a host, with a broker, an agent and procs of its own, all descendants of
  /// that proc. The extent is that of the outer hosts followed by `per_host`. What bounds the proc
  /// bounds the inner host. Whatever ends the proc ends the inner host with all that runs there,
  /// and the proc's exit report is the proof: ranks of the inner host are lost at that moment, and
  /// their exit reports name it. The inner hosts end with this mesh too; `outer` may go before, and
  /// takes them along when its hosts end. Inner hosts are reached over unix sockets where all outer
  /// hosts are, else over tcp, at the address of their outer host or, where that is none of theirs,
  /// at their own, with keys that are made for them. Errors: as spawn() and process(); would_block
  /// on the thread of handlers.
  [[nodiscard]] static Result<HostMesh> inside(Context& context, HostMesh& outer,
                                               const Extent& per_host = {},
                                               InsideOptions options = {});
  /// The hosts of an allocation (meshbus/allocator.h), each under its rank there. The mesh owns
  /// them from now on: they end with it. Its name is `base` and a fresh uuid. With no rank at all
  /// it succeeds at once. Errors, after which the allocation has been let go: as attach(), for the
  /// host of each rank; would_block, refused (after fork).
  [[nodiscard]] static Result<HostMesh> allocate(
      Context& context, std::string_view base, std::unique_ptr<Allocation> allocation,
      std::chrono::milliseconds deadline = std::chrono::seconds(30));
  /// Running hosts, axis `host` in that order. Errors: host_unreachable naming each host that does
  /// not answer and why; unauthorised when one does not take our key; identity_mismatch when
  /// another process answers at an address; configuration_error when there is no address.
  [[nodiscard]] static Result<HostMesh> attach(Context& context, std::string_view name,
                                               std::vector<HostAddr> hosts,
                                               AttachOptions options = {});
  /// Running hosts with the axes of a reference.
  [[nodiscard]] static Result<HostMesh> attach(Context& context, const HostMeshRef& ref,
                                               AttachOptions options = {});
  /// The same hosts, owned: the destructor of this mesh asks them to end, and shutdown() ends them.
  /// (They stay when this launcher is killed.) A controller that answers for them (handover()) is
  /// asked to give them back. Errors: as attach(); all hosts have to answer, with any options; what
  /// that controller says.
  [[nodiscard]] static Result<HostMesh> take(Context& context, const HostMeshRef& ref,
                                             AttachOptions options = {});

  HostMesh(HostMesh&&) noexcept;
  HostMesh& operator=(HostMesh&&) noexcept;
  /// Hosts that are attached, or handed over, are left running. All others are asked to end (best
  /// effort, without waiting): call shutdown() to know the outcome.
  ~HostMesh();

  const HostMeshRef& ref() const noexcept;  ///< Name, region and addresses: a plain value.
  /// Hosts in rank order.
  const std::vector<HostAddr>& hosts() const noexcept;

  /// Starts procs: the extent of the mesh is that of the hosts followed by `per_host`; one message
  /// per host. The mesh's name is `base` and a fresh uuid. With no rank at all it succeeds at once.
  /// Errors: configuration_error (a label that hosts and per_host both have, no command),
  /// proc_creation_error (a rank ended before all were ready: rank, place, how, stderr tail),
  /// proc_spawn_error (not ready in time: ranks and the stage each is stuck in), and what a host
  /// refused with. On error what did start is stopped (unless ProcSpec::partial).
  [[nodiscard]] Result<ProcMesh> spawn(std::string_view base, const Extent& per_host, ProcSpec spec,
                                       Handlers handlers = {});
  /// The same with `ranks` ranks in all, in blocks over the hosts: axes of the hosts and `proc`
  /// when they divide evenly, else one axis `proc` (the first hosts have one more).
  [[nodiscard]] Result<ProcMesh> spawn_n(std::string_view base, std::uint64_t ranks, ProcSpec spec,
                                         Handlers handlers = {});

  /// Takes a mesh on these hosts, by its whole name, from the controller that answers for it, or as
  /// one that nobody answers for: what ProcMesh::handover() gives, this takes back. From then on it
  /// is this launcher's, as if it had spawned it, and ends with it. Its RestartPolicy comes along
  /// (ProcSpec::restart), with what was used of its budget; its output stays in the logs. Ranks
  /// that have failed before are told once more. Errors: not_exist; refused (it is this
  /// launcher's); unauthorised, no_such_port (another launcher answers for it, which gives it to
  /// nobody); what a host of it says. After timeout and other errors without an answer it may be
  /// done, or be done yet: the next call tells, and until then this launcher renews the lease where
  /// hosts name it as the owner, as long as this object lives.
  [[nodiscard]] Result<ProcMesh> take_over(std::string_view mesh, Handlers handlers = {},
                                           TakeOverOptions options = {});

  /// Gives the hosts to a controller (`HOST,controller`), which watches them: those that were
  /// taken, or started on this machine (process(), local()). From then on the controller answers
  /// for them, with or without this launcher: neither this object nor the end of this process ends
  /// them. They end, with their procs, when the controller ends in order, or when its lease lapses;
  /// with HandoverOptions::detach they go on then, without an owner. Meshes on them are handed over
  /// by themselves (ProcMesh::handover), before. Returns when every host has confirmed it. A second
  /// call changes nothing; it fails with refused, and names their owner, when that is not
  /// this controller. Errors: refused (attached hosts, which are not this mesh's; hosts that cannot
  /// do without this launcher: remote(); a release that cannot do it; or by the controller: it does
  /// not watch all these, or gives no lease); otherwise the hosts that have not confirmed, by name.
  /// Then this launcher still ends them, and may try again.
  [[nodiscard]] Result<void> handover(const ProcId& controller, HandoverOptions options = {});
  /// Whether handover() has succeeded.
  bool is_handed_over() const;

  /// A port that is free on that host now, and outside of those that outgoing connections get: for
  /// a server that a proc is to be. Errors: out_of_range (no such host), host_unreachable, timeout;
  /// would_block, refused (after fork).
  [[nodiscard]] Result<std::uint16_t> free_port(
      std::uint64_t host, std::chrono::milliseconds deadline = std::chrono::seconds(10)) const;

  /// Asks every host now. By rank; hosts that do not answer are there with their problem. Errors:
  /// would_block, refused (after fork).
  [[nodiscard]] Result<std::vector<HostReport>> states(
      std::chrono::milliseconds deadline = std::chrono::seconds(10)) const;
  /// What meshes are on these hosts, of any launcher; with what their live ranks use, when that
  /// is wanted (RankReport::usage). Errors: would_block, refused (after fork).
  [[nodiscard]] Result<MeshListing> meshes(
      std::chrono::milliseconds deadline = std::chrono::seconds(10), bool with_usage = false) const;
  /// What the event logs of these hosts have about a mesh (its name, or its base: all of that base;
  /// empty: all of them) and about the hosts themselves, however long ago the mesh has ended, as
  /// far as the logs go back. Errors: would_block, refused (after fork).
  [[nodiscard]] Result<EventListing> events(
      std::string_view mesh, std::chrono::milliseconds deadline = std::chrono::seconds(10)) const;
  /// The audit trails of these hosts: each request that changed something, by which principal and
  /// with which outcome, oldest first. `text` of each event is a line of JSON
  /// (docs/guide/security.md); nothing else of it is set but the host. For operators. Errors:
  /// would_block, refused (after fork).
  [[nodiscard]] Result<EventListing> audit(
      std::chrono::milliseconds deadline = std::chrono::seconds(10)) const;
  /// Stops a mesh of any launcher on these hosts, and waits. Its ranks here, all terminal. Errors:
  /// not_exist; stop_error naming ranks or hosts; host_unreachable.
  [[nodiscard]] Result<std::vector<RankReport>> stop_mesh(std::string_view mesh,
                                                          StopOptions options = {});
  /// Orders the owner of a mesh on these hosts, by its whole name, to add blocks to it as
  /// ProcMesh::grow() does, and waits for what comes of it. Its launcher has to take such orders
  /// (Handlers::on_resize_order); `meshbus run` does. The owner gives it up at the deadline, and
  /// undoes what it has begun. For operators. Errors: not_exist; unauthorised; refused, and those
  /// of ProcMesh::grow(): what the owner says, whose mesh is as it was; timeout, fate_unknown: the
  /// owner has not answered, or is gone, so look at its size; would_block. Of the options, `stop`
  /// does not count.
  [[nodiscard]] Result<OrderedResize> grow_mesh(
      std::string_view mesh, GrowOptions options = {},
      std::chrono::milliseconds deadline = std::chrono::seconds(60));
  /// The same for ProcMesh::shrink(). Of the options, `blocks` and `grace` count.
  [[nodiscard]] Result<OrderedResize> shrink_mesh(
      std::string_view mesh, ShrinkOptions options = {},
      std::chrono::milliseconds deadline = std::chrono::seconds(60));

  /// The statuses of the ranks of a mesh, or of a slice of it, of any launcher, asked of their
  /// hosts now; by their ordinals in that view. NotExist is not there (any more); Unknown is on a
  /// host that does not answer. Errors: would_block, refused (after fork).
  [[nodiscard]] Result<StatusMesh> statuses(
      const ProcMeshRef& mesh, std::chrono::milliseconds deadline = std::chrono::seconds(10)) const;
  /// Waits until each of them has reached at least that status, or has ended; also for a mesh that
  /// does not exist yet. A rank that has failed counts, too: look at the statuses. Errors: timeout
  /// naming the missing ranks and their statuses, and hosts that do not answer; out_of_range for
  /// unknown, which satisfies no wait; would_block, refused (after fork).
  [[nodiscard]] Result<StatusMesh> wait_status(const ProcMeshRef& mesh, Status::Kind minimum,
                                               WaitOptions options = {}) const;

  /// Stops the procs of a scope on these hosts, of any launcher, and waits until they are gone.
  /// Meanwhile, and with `hold` until resume(), they start no proc of that scope: a spawn is
  /// refused and says why. The hosts stay. Errors: stop_error naming each host that failed, and
  /// how; parse_error; would_block, refused (after fork).
  [[nodiscard]] Result<DrainSummary> drain(DrainOptions options = {});
  /// Ends the hold of exactly that scope; no error if there is none. Errors: host_unreachable
  /// naming the hosts that do not answer.
  [[nodiscard]] Result<void> resume(std::string_view mesh = {}, std::string_view owner = {},
                                    std::chrono::milliseconds deadline = std::chrono::seconds(10));

  /// Reads what ranks of a mesh of any launcher wrote; of those that have ended as long as their
  /// records are kept. `mesh`: see meshes(). Later failures go to LogHandlers::on_end. Errors:
  /// not_exist (a rank), host_unreachable (ranks on a host that is not one of these),
  /// configuration_error, would_block, refused (after fork).
  [[nodiscard]] Result<LogStream> logs(const MeshReport& mesh, LogOptions options,
                                       LogHandlers handlers) const;

  /// Stops all procs and ends the hosts, all at once; when it succeeds their addresses can be bound
  /// again. `grace`: between SIGTERM and SIGKILL; default key terminate.grace. Errors: stop_error
  /// naming each host that failed, and how. A second call returns the first one's outcome.
  [[nodiscard]] Result<ShutdownSummary> shutdown(
      std::chrono::milliseconds deadline = std::chrono::seconds(30),
      std::optional<std::chrono::milliseconds> grace = {}, std::string_view reason = "shutdown");

  class Impl;
  explicit HostMesh(std::unique_ptr<Impl> impl);  ///< For the library.

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshbus
