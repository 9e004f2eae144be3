#pragma once

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/unique_fd.h"

namespace meshbus::os {

/// Where a standard stream of a proc goes.
enum class Stdio : std::uint8_t {
  null = 0,     ///< /dev/null.
  pipe = 1,     ///< A pipe; the agent gets the other end, set non-blocking, with the Birth.
  inherit = 2,  ///< The keeper's own stream (the warden's stderr, for stdout and stderr).
};

/// One setrlimit(2) of a proc: `resource` is a RLIMIT_* number.
struct ResourceLimit {
  std::uint32_t resource = 0;
  std::uint64_t soft = 0;
  std::uint64_t hard = 0;

  friend bool operator==(const ResourceLimit&, const ResourceLimit&) = default;
};

/// Limits of a proc and its descendants together, kept by a cgroup of its own. 0: none.
struct GroupLimits {
  std::uint64_t memory = 0;     ///< Bytes, swap included; at least kLeastMemoryLimit.
  std::uint64_t pids = 0;       ///< Processes and threads.
  std::uint32_t cpu_milli = 0;  ///< Thousandths of a CPU, at least kLeastCpuLimit.

  bool any() const noexcept { return memory != 0 || pids != 0 || cpu_milli != 0; }
  friend bool operator==(const GroupLimits&, const GroupLimits&) = default;
};
/// With less than that no program gets through its own exec.
inline constexpr std::uint64_t kLeastMemoryLimit = 1u << 20;
/// What the kernel takes.
inline constexpr std::uint32_t kLeastCpuLimit = 10;

/// What a proc is set to before it executes its command. Whatever is not there stays as the keeper
/// has it.
struct ProcSettings {
  std::vector<ResourceLimit> limits = {};
  std::optional<int> nice = {};             ///< -20 to 19.
  std::optional<std::uint32_t> umask = {};  ///< 0 to 0777.
  std::vector<std::uint32_t> cpus = {};     ///< By number, below kMaxCpus; empty: any.
  std::optional<std::uint32_t> uid = {};
  std::optional<std::uint32_t> gid = {};
  /// With uid or gid, or not empty: these supplementary groups and no others.
  std::vector<std::uint32_t> groups = {};
  /// setsid; false: only a process group of its own in the keeper's session.
  bool new_session = true;
  GroupLimits group = {};
  /// Orphans of its descendants come to it. Else to the keeper, which ends them when any proc ends.
  bool subreaper = true;
  bool no_new_privs = false;  ///< prctl(PR_SET_NO_NEW_PRIVS): setuid programs gain nothing.

  friend bool operator==(const ProcSettings&, const ProcSettings&) = default;
};
inline constexpr std::uint32_t kMaxCpus = 1024;
/// As many NUMA nodes as the kernel can have.
inline constexpr std::uint32_t kMaxMemoryNodes = 1024;

/// Where one proc runs, and where its memory comes from.
struct Placement {
  /// What set_mempolicy(2) is told.
  enum class Memory : std::uint8_t {
    as_is = 0,  ///< Nothing.
    /// MPOL_PREFERRED: the first of `memory_nodes`, others when it is full. Where the kernel
    /// refuses that, the proc starts without it.
    prefer = 1,
    only = 2,  ///< MPOL_BIND.
  };
  std::vector<std::uint32_t> cpus = {};  ///< Empty: ProcSettings::cpus.
  Memory memory = Memory::as_is;
  std::vector<std::uint32_t> memory_nodes = {};  ///< Below kMaxMemoryNodes.

  friend bool operator==(const Placement&, const Placement&) = default;
};

/// "RLIMIT_CORE"; "RLIMIT 99" for an unknown number.
std::string rlimit_name(std::uint32_t resource);

/// What the procs of one batch have in common. A plain value.
struct SpawnSpec {
  /// A path when it has a '/', else looked up in PATH of the proc's own environment.
  std::string program;
  std::vector<std::string> argv;  ///< argv[0] included; empty means {program}.
  /// The whole environment, KEY=VALUE; nothing is inherited from the keeper.
  std::vector<std::string> env;
  std::string cwd;   ///< Empty: the keeper's. A relative program is found from here.
  std::string mesh;  ///< The mesh's name: procs of one mesh share a cgroup.
  /// The command is a template (agent/os/template_link.h): it is started once, and the procs are
  /// its copies.
  bool is_template = false;
  int parent_death_signal = SIGKILL;  ///< 0: none.
  ProcSettings settings;
};

/// One proc of a batch. Owns the bootstrap descriptor until it was sent.
struct ProcSpec {
  std::uint64_t id = 0;          ///< Chosen by the agent, never used twice in its life.
  std::vector<std::string> env;  ///< KEY=VALUE, each overriding the shared entry of that key.
  UniqueFd bootstrap;            ///< Sealed memfd or empty. The proc finds it by
                                 ///< MESHBUS_BOOTSTRAP="fd:pid:inode" (spec 4.4).
  std::uint32_t place = 0;  ///< Above 0: in the process of the one before it in the batch, whose
                            ///< bootstrap names all of them in order.
  /// With place 0: its process takes further procs later. Not with SpawnSpec::is_template.
  bool is_joinable = false;
  /// A proc in whose process this one, and those that follow with a place above 0, are to run. When
  /// that process is gone, or takes none, they get one of their own. 0: they do anyway.
  std::uint64_t beside = 0;
  Placement placement = {};
  Stdio stdin_choice = Stdio::null;
  Stdio stdout_choice = Stdio::pipe;
  Stdio stderr_choice = Stdio::pipe;
};

/// Procs to start, any number; the client cuts it into messages of at most kMaxProcsPerBatch.
struct SpawnBatch {
  SpawnSpec shared;
  std::vector<ProcSpec> procs;
};

/// The step at which a spawn failed. Travels between keeper and agent; append only.
enum class SpawnStage : std::uint8_t {
  none = 0,
  spec,         ///< The request itself is unusable (too long, a NUL inside, no program).
  lookup,       ///< Not found, or not executable, in PATH.
  descriptors,  ///< Pipes or pidfd: the keeper is out of descriptors, usually.
  cgroup,   ///< The mesh's cgroup, or that of its limits, could not be made or joined; `file` may
            ///< say which.
  clone,    ///< No process could be made (limits on processes or memory).
  session,  ///< setsid or setpgid.
  limits,   ///< setrlimit.
  parent_death,       ///< prctl(PR_SET_PDEATHSIG), or the keeper died meanwhile.
  subreaper,          ///< prctl(PR_SET_CHILD_SUBREAPER).
  working_directory,  ///< chdir; `file` is the directory.
  stdio,              ///< dup3 of stdin, stdout, stderr or the bootstrap descriptor.
  signals,            ///< Signal dispositions or mask.
  exec,               ///< execve; `file` is what was to be executed.
  interpreter,        ///< execve found the file but not its interpreter; `file` names both.
  cancelled,          ///< A signal for this id came before it was started.
  nice,               ///< setpriority.
  affinity,           ///< sched_setaffinity: none of the CPUs is there, or may be used; `file`
                      ///< says which were wanted.
  credentials,        ///< setgroups, setresgid or setresuid; `file` names what was wanted.
  oom_score,          ///< /proc/self/oom_score_adj, which is not to be that of the keeper.
  copy,               ///< The template made no copy; `file` says why.
  memory_policy,      ///< set_mempolicy; `file` says which nodes were wanted.
};

/// "exec", "lookup", ... Never null.
std::string_view to_string(SpawnStage stage) noexcept;

/// Why there is no proc: the step, the errno and the file it is about (may be empty).
struct SpawnFailure {
  SpawnStage stage = SpawnStage::none;
  int error = 0;
  std::string file;
};

/// One line for people: "/no/such/file: No such file or directory (step: exec)".
std::string describe(const SpawnFailure& failure);

}  // namespace meshbus::os
