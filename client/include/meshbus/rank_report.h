#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "meshbus/address.h"
#include "meshbus/proc_mesh_ref.h"
#include "meshbus/result.h"
#include "meshbus/status.h"

/// What is known about the ranks of a mesh, and how a mesh ended. Plain
/// values.
namespace [[gnu::visibility("default")]] meshbus {

/// The state of one proc. Nothing leaves a terminal state: stopped, killed, failed.
enum class ProcState : std::uint8_t {
  unknown = 0,   ///< No host could tell; never the same as stopped.
  starting = 1,  ///< Being started.
  running = 2,   ///< Has a pid; a mesh proc that has not yet said that it is ready.
  ready = 3,     ///< Plain: exec succeeded. Mesh: registered with its broker, handlers are up.
  stopping = 4,  ///< A stop was requested and is under way.
  stopped = 5,   ///< Exited, or ended by a requested stop; see exit_code and signal.
  killed = 6,    ///< Ended by a signal without a request.
  failed = 7,    ///< Never ran, was not ready in time, ended with exit 0 before its hello (mesh
                 ///< procs), or its host is lost.
};

/// The last step of a requested stop; none = no stop was requested.
enum class StopStep : std::uint8_t { none = 0, asked = 1, term = 2, kill = 3 };

/// What ended a rank, for programs; RankReport::reason says it in words.
enum class Cause : std::uint8_t {
  unknown = 0,       ///< It has not ended, or its host does not say.
  exited = 1,        ///< By itself: exit_code.
  signaled = 2,      ///< signal, core_dumped.
  exec_failed = 3,   ///< The command cannot be executed: os_error.
  spawn_failed = 4,  ///< The host could not start anything, or not with these settings: os_error.
  not_ready = 5,     ///< Not ready in time; or a mesh proc that ended with exit 0 before it was.
  stopped = 6,       ///< On request: stopped_by, stop_reason, step.
  killed_after_grace = 7,   ///< On request, by SIGKILL at the end of the grace.
  out_of_memory = 8,        ///< Killed by the kernel, as its memory cgroup counts.
  killed_from_outside = 9,  ///< SIGKILL from another process.
  cpu_limit = 10,           ///< RLIMIT_CPU.
  frozen = 11,              ///< It, or its keeper, was alive but did not respond.
  owner_gone = 12,          ///< Stopped because the launcher was gone.
  lease_lapsed = 13,        ///< Stopped because its lease was not renewed.
  host_ended = 14,          ///< Stopped because its host was asked to end.
  keeper_lost = 15,         ///< Its keeper has died.
  lost = 16,                ///< The cause cannot be known.
  unkillable = 17,          ///< Even SIGKILL did not end it.
  host_lost = 18,           ///< Its host is dead, or given up: `code` is host_unreachable then.
};

/// What is wrong with a live rank. Mesh procs only: plain ones have nothing to answer
/// with.
enum class Trouble : std::uint8_t {
  none = 0,    ///< No trouble is known.
  slow = 1,    ///< It answers, but late.
  frozen = 2,  ///< It is alive and does not answer. This is no end, and nothing is done to it.
  stuck =
      3,  ///< It answers, but a handler of it has run for longer than the setting handler.stuck.
};

/// "ready". Never null.
std::string_view to_string(ProcState state) noexcept;
std::string_view to_string(Trouble trouble) noexcept;
std::string_view to_string(StopStep step) noexcept;
/// "out_of_memory"
std::string_view to_string(Cause cause) noexcept;
/// "SIGKILL", or "signal 77".
std::string signal_name(int signal);

/// A set of ranks: disjoint blocks, ascending. Where one is asked for, an empty one means all
/// ranks.
using RankSet = std::vector<RankBlock>;
/// Made of ascending ranks.
RankSet to_rank_set(const std::vector<std::uint64_t>& ranks);
bool contains(const RankSet& set, std::uint64_t rank) noexcept;
/// "0-5,7"; "none" when empty.
std::string to_string(const RankSet& set);

/// How far the start of a rank has come.
enum class LaunchStage : std::uint8_t {
  none,       ///< Nothing is known of it.
  asked,      ///< Its host agent has accepted the request.
  spawned,    ///< Its process is being made.
  exec,       ///< It executes its command.
  connected,  ///< Mesh procs: connected to their broker.
  hello,      ///< Mesh procs: the broker has answered their Hello.
  ready,      ///< As ProcState::ready.
};
/// "exec'd". Never null.
std::string_view to_string(LaunchStage stage) noexcept;

/// When a rank reached each stage, by the clock of its host; known when it is ready, or has ended
/// before.
struct LaunchTimes {
  using Time = std::optional<std::chrono::system_clock::time_point>;  ///< By the host's clock;
                                                                      ///< nothing = never.
  Time asked, spawned, exec, connected, hello, ready;                 ///< One for each LaunchStage.

  /// Nothing: it did not reach the stage, or its kind has no such stage.
  const Time& at(LaunchStage stage) const noexcept;
  /// The last one that it has reached.
  LaunchStage stage() const noexcept;
};

/// The usage of the process of a rank, without its descendants, as its host saw it (setting
/// usage.period).
struct ProcUsage {
  std::chrono::system_clock::time_point
      sampled;                               ///< The time of the sample, by the clock of its host.
  std::chrono::microseconds user_time{0};    ///< CPU time of its own code.
  std::chrono::microseconds system_time{0};  ///< CPU time in the kernel for it.
  std::uint64_t rss_bytes = 0;               ///< Resident memory.
  std::uint64_t peak_rss_bytes = 0;          ///< The most that it ever was.
  std::uint32_t threads = 0;                 ///< Threads that are alive.
  std::uint32_t descriptors = 0;             ///< Open ones; 0 = unknown to its host.
  double load = 0;  ///< CPUs that it has kept busy since the sample before.
  /// When it last said that it makes progress (`meshbus progress`), in steps of a second.
  std::optional<std::chrono::system_clock::time_point> progress;
};

/// One rank: its place, its state, and when it has ended its exit report.
struct RankReport {
  std::uint64_t rank = 0;  ///< Create rank: the row-major position in the mesh as it was made.
  std::uint64_t host_index = 0;        ///< Which host of the mesh: NODE_RANK.
  HostAddr host = HostAddr::local(0);  ///< The address of its host.
  std::string
      point;  ///< Where in the mesh: "host=0/2,gpu=1/4". Empty for a mesh without dimensions.
  ProcState state = ProcState::unknown;  ///< Its present state.
  std::int64_t pid = 0;                  ///< 0 = never had one. On its host.
  int exit_code = 0;                     ///< When it exited.
  int signal = 0;                        ///< Not 0: it did not exit, but was ended by this signal.
  bool core_dumped = false;              ///< With `signal`: it left a core.
  StopStep step = StopStep::none;        ///< Not none: a stop was requested.
  std::optional<std::chrono::system_clock::time_point>
      started;  ///< When it got its pid, by the clock of its host.
  std::optional<std::chrono::system_clock::time_point> ended;  ///< When it ended, by that clock.
  std::uint64_t generation =
      0;  ///< Counts the changes of this rank; the larger one is the later one.
  std::uint64_t incarnation = 0;  ///< Tells one process of the rank from the next.
  std::uint64_t restarts = 0;     ///< How often it was started before.
  bool is_restarting = false;  ///< Its mesh's RestartPolicy restarts it: this is, or will be, not
                               ///< its last end.
  LaunchTimes launch;          ///< When it reached which stage.
  std::optional<ProcUsage>
      usage;  ///< For a live rank: on request. For an ended one: the last sample.
  // From the exit report; empty until it has come.
  std::string reason;  ///< As text: "exit 3", "killed by SIGSEGV", "cannot execute /no/such/file:
                       ///< execve: No such file or directory".
  ErrorCode code = ErrorCode::none;  ///< exec_failed; timeout = not ready in time; host_unreachable
                                     ///< = its host is lost.
  int os_error = 0;                  ///< The errno of a failed start.
  Cause cause = Cause::unknown;      ///< The reason, for programs.
  bool consequence = false;          ///< It ended because something else had ended or gone before.
  std::optional<std::uint64_t> because;  ///< The rank whose end was the reason.
  std::string stderr_tail;               ///< The last lines, exact bytes, newlines included.
  std::string stopped_by;   ///< The ProcId of the requester of its end, or the role that asked.
  std::string stop_reason;  ///< As given by them.
  std::uint64_t max_rss_bytes = 0;           ///< The most memory that it had resident.
  std::chrono::microseconds user_time{0};    ///< CPU time of its own code.
  std::chrono::microseconds system_time{0};  ///< CPU time in the kernel for it.
  Trouble trouble = Trouble::none;  ///< A trouble that its host has found while it is ready.
  std::string trouble_reason;       ///< As text: "stopped by a signal, nothing from it for 12.3 s".
  std::optional<std::chrono::system_clock::time_point>
      trouble_since;  ///< When that was found, by the clock of its host; for Trouble::stuck the
                      ///< start of the handler.

  /// Stopped, killed or failed.
  bool is_terminal() const noexcept;
  /// Ended without a request: a non-zero exit, a signal, a failure. An end after a requested stop
  /// is no failure, with any code or signal.
  bool is_failure() const noexcept;
  /// The same as a status of meshes: killed and failed are Failed, with the reason as
  /// text; a rank that exited is Stopped, with any code.
  Status status() const;
  /// The code that a shell would return: the exit code; 128 + signal; 127 no such file, 126 cannot
  /// execute; 125 if meshbus was the reason.
  int shell_code() const noexcept;
  /// Its end or state as text: "exit 3", "killed by SIGKILL (core dumped)", "running".
  std::string words() const;
  /// "rank 1 (host=0,gpu=1 on unix:/run/m/broker): exit 3"
  std::string describe() const;
};

/// Which of these ranks are not ready, as ranges per host and stage: "on unix:/run/m/broker: ranks
/// 0-3,7 exec'd, no hello yet; rank 5 not spawned yet; on tcp:h2:7420: ...". Ranks that have been
/// ready are left out; empty when all have.
std::string describe_stuck(const std::vector<RankReport>& ranks);

/// Why a job has failed as a whole, also when no rank of it has: the trouble of an MPI job
/// (ProcSpec::mpi).
struct JobTrouble {
  int code = 0;                         ///< The exit code of the job; never 0.
  std::string words;                    ///< For people: "MPI_Abort(7) by rank 3".
  std::optional<std::uint64_t> rank{};  ///< The rank that is the reason, if it is one.
};

/// How a mesh ended, or its present state.
struct MeshOutcome {
  std::vector<RankReport> ranks;  ///< All of them, by rank; the last incarnation of each.
  /// The failed rank that ended first by the clock of its host: the cause rather than its
  /// consequences, also when they follow within a millisecond. Between hosts that is as good as
  /// their clocks agree. With a RestartPolicy: the first one that is not followed by a restart.
  std::optional<RankReport> first_failure;
  std::optional<JobTrouble> trouble =
      {};  ///< Why an MPI job failed; it comes before first_failure.
  std::vector<RankReport> former_lives = {};  ///< Incarnations that were followed by another one,
                                              ///< with exit reports, by end; the last 1000.

  /// Whether every rank is terminal.
  bool is_ended() const noexcept;
  /// The exit code of `run`: that of the trouble, first_failure's shell_code(), or 0.
  int exit_code() const noexcept;
};

}  // namespace meshbus
