#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// What is known of a machine on which a host runs, or could run. Plain values.
namespace meshbus::cli::doctor {

/// No limit, as RLIM_INFINITY.
inline constexpr std::uint64_t kUnlimited = UINT64_MAX;

/// One limit of setrlimit(2).
struct SoftHard {
  std::uint64_t soft = kUnlimited;
  std::uint64_t hard = kUnlimited;
};

/// Uses of StorageFacts.
inline constexpr const char* kRunDirectory = "run directory";
inline constexpr const char* kTemporaryFiles = "folder for temporary files";
inline constexpr const char* kSharedMemory = "shared memory";

/// Where meshbus or its procs write.
struct StorageFacts {
  std::string use;
  std::string path;
  std::string problem =
      {};  ///< Why nothing is known of it, or nothing can be written; empty: none.
  std::uint64_t free_bytes = 0;
  std::uint64_t size_bytes = 0;
  /// Files that can still be made; nothing = the file system does not count them.
  std::optional<std::uint64_t> free_files = {};
  std::uint64_t device = 0;  ///< st_dev: several folders may share a file system.
};

/// Processes and threads.
struct TaskFacts {
  std::uint64_t used = 0;
  std::uint64_t limit = kUnlimited;
  std::string source;  ///< "RLIMIT_NPROC", or the file of a cgroup.
};

/// The machine's name, and what it resolves to there.
struct NameFacts {
  std::string name;
  std::vector<std::string> addresses = {};
  std::string problem = {};  ///< Why it does not resolve.
};

/// The login session that the process belongs to.
struct SessionFacts {
  std::string scope;  ///< "session-3.scope"; empty: none.
  /// logind kills what is left of a session (KillUserProcesses=yes).
  bool is_killed_at_logout = false;
  /// The user's run directory goes with the last session (no lingering).
  bool is_run_dir_removed = false;
};

/// A key file.
struct KeyFacts {
  std::string path;
  std::string problem = {};  ///< Why it cannot be used, and what to do; empty: it can.
  std::optional<std::int64_t> expires = {};  ///< Unix seconds.
};

/// What one machine says of itself, as a process of the host's user sees it.
struct HostFacts {
  std::string version;
  bool is_root = false;
  SoftHard descriptors;
  SoftHard locked_memory;
  bool has_infiniband = false;
  /// Whichever limit of processes leaves the fewest.
  std::optional<TaskFacts> tasks;
  std::vector<StorageFacts> storage;
  NameFacts name;
  /// The kernel's word that its clock is kept in step (adjtimex).
  bool is_clock_synchronised = true;
  /// Why procs cannot be limited by cgroups; empty: they can.
  std::string cgroup_problem;
  bool has_systemd = false;  ///< It can hand cgroups on.
  SessionFacts session;
  std::string keys_directory;  ///< Empty: no keys.
  std::vector<KeyFacts> keys;
  /// Run directories of hosts that have been killed as a whole.
  std::vector<std::string> leftovers;
};

}  // namespace meshbus::cli::doctor
