#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/types.h>

namespace meshbus::os {

/// Everything that a new child does between clone and exec, worked out beforehand: the child
/// shares our memory and may only make raw system calls. All pointers are borrowed for the time of
/// the spawn. The groups are in the order in which the child works them off.
struct ChildPlan {
  struct Limit {
    std::uint32_t resource = 0;
    std::uint64_t soft = 0;
    std::uint64_t hard = 0;
  };
  /// What is executed.
  /// As execve takes it; a relative one counts from `cwd`.
  struct Command {
    const char* path = nullptr;
    const char* const* argv = nullptr;  ///< Ends with null.
    const char* const* envp = nullptr;  ///< Ends with null.
    const char* cwd = nullptr;          ///< Null: as ours.
    int umask = -1;                     ///< -1: as ours.
  };
  /// How the child hangs together with us and with its descendants.
  /// setsid; else setpgid(0, 0).
  struct Ties {
    bool new_session = true;
    bool new_pid_namespace = false;  ///< The child becomes process 1 of one.
    bool subreaper = true;           ///< The child adopts orphans of its descendants.
    int parent_death_signal = 0;     ///< 0: none.
    pid_t parent = 0;                ///< Our pid: compared with getppid once the signal is armed.
  };
  /// cgroup.procs to join by writing, where clone3 cannot; -1: none.
  struct Cgroups {
    int cgroup_procs = -1;
    const int* joins = nullptr;  ///< Further ones, of cgroup v1: see join_file_v1().
    std::size_t join_count = 0;
  };
  struct Limits {
    const Limit* each = nullptr;
    std::size_t count = 0;
    bool has_nice = false;
    int nice = 0;
    const unsigned long* cpu_mask = nullptr;  ///< As sched_setaffinity takes it; null: as ours.
    std::size_t cpu_mask_bytes = 0;
    int memory_mode = 0;                          ///< As set_mempolicy takes it.
    const unsigned long* memory_nodes = nullptr;  ///< Likewise; null: no policy is set.
    unsigned long memory_node_bits = 0;
    const char* oom_score = nullptr;  ///< For /proc/self/oom_score_adj; null: as ours.
    std::size_t oom_score_bytes = 0;
  };
  struct Credentials {
    bool has_groups = false;
    const std::uint32_t* groups = nullptr;
    std::size_t group_count = 0;
    std::int64_t gid = -1;  ///< -1: as ours; likewise the uid.
    std::int64_t uid = -1;
    /// No program that it executes gains privileges (setuid, file caps).
    bool no_new_privs = false;
  };
  struct Descriptors {
    /// Descriptors from this number on do not exist for the child: it shares our table until it
    /// drops them, so a spawn costs the same however many procs we watch. 0: the child gets a copy
    /// of the whole table. Spawner clears it where close_range is not allowed.
    unsigned first_foreign_fd = 0;
    bool has_close_range = true;
    int stdio[3] = {-1, -1, -1};   ///< Becomes 0, 1, 2; each is 3 or more, or -1: as ours.
    const int* inherit = nullptr;  ///< Further descriptors that stay open under their numbers.
    std::size_t inherit_count = 0;
  };
  /// The bootstrap of a mesh proc, the socket of a process of several procs, and the folder by
  /// which a proc of another user reaches its broker. Becomes `target`; -1: none.
  struct Bootstrap {
    int fd = -1;
    int target = -1;
    char* text = nullptr;          ///< Where the child writes its pid and the suffix.
    const char* suffix = nullptr;  ///< ":INODE", which makes "PID:INODE" in the environment.
    int link = -1;                 ///< Becomes `link_target`; -1: none.
    int link_target = -1;
    int bus_folder = -1;  ///< Becomes `bus_folder_target`; -1: none.
    int bus_folder_target = -1;
  };
  struct Signals {
    /// Bit n-1: signal n is ignored here and goes back to default there.
    std::uint64_t ignored = 0;
    bool reset_all = false;  ///< Set by the clone step when the kernel kept our handlers.
  };
  /// Written by the child. Final when the clone returns, because it returns after exec or exit.
  /// A SpawnStage; 0: execve succeeded.
  struct Outcome {
    int failed_stage = 0;
    int error = 0;
    std::size_t failed_limit = 0;  ///< Which limit, at stage limits.
  };

  Command command;
  Ties ties;
  Cgroups cgroups;
  Limits limits;
  Credentials credentials;
  Descriptors descriptors;
  Bootstrap bootstrap;
  Signals signals;
  Outcome outcome;
};

/// The child's side: runs the plan and never returns. `plan` is a ChildPlan*.
[[noreturn]] void run_child(void* plan);
/// Another child's side: nothing but exit code 0.
[[noreturn]] void end_at_once(void* unused);

/// Starts a child on `stack` (its lowest address and size) that shares our memory, and waits until
/// it executed or ended (CLONE_VM | CLONE_VFORK | CLONE_PIDFD). `entry(argument)` must not return.
/// `cgroup` is a cgroup v2 directory to be born in, or -1. All signals must be blocked. Returns the
/// pid, or -errno. `cleared_signals` says beforehand whether handlers will be cleared: clone3 does
/// it, the older clone (used where clone3 is forbidden, as in old container runtimes) does not and
/// knows no cgroup.
struct CloneRequest {
  void (*entry)(void*) = nullptr;
  void* argument = nullptr;
  void* stack = nullptr;
  std::size_t stack_size = 0;
  int cgroup = -1;
  bool share_files = false;        ///< CLONE_FILES.
  bool new_pid_namespace = false;  ///< CLONE_NEWPID.
};
long clone_with_clone3(const CloneRequest& request, int& pidfd);
long clone_with_clone(const CloneRequest& request, int& pidfd);

}  // namespace meshbus::os
