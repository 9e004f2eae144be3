#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "agent/keeper/shared_process.h"
#include "common/base/unique_fd.h"

namespace meshbus::keeper {

/// The processes of the keeper and the procs in them. Pure bookkeeping. What may happen to a proc,
/// and what the keeper does then:
///
/// | state   | kept in        | signal     | kill mesh | pidfd readable   | no orphan left |
/// |---------|----------------|------------|-----------|------------------|----------------|
/// | unknown | -              | ignore     | -         | -                | -              |
/// | queued  | SpawnQueue     | cancel (1) | cancel    | -                | -              |
/// | running | ProcTable      | send (2)   | SIGKILL   | kill group, reap | -              |
/// | exited  | ProcTable dead | ignore     | -         | -                | report: empty  |
/// | empty   | ReplayRegistry | ignore     | -         | -                | -              |
///
/// (1) Only signals that end a process cancel; the Birth says so. (2) Through SignalWaves.
/// A proc is reported exited by Exit at the reaping, and empty (no descendant lives, so its pipes
/// end) by Gone. A new agent is told of all that are running, exited or empty, until an agent says
/// Forget. When the keeper sweeps, running procs become exited, and exited ones empty, before it
/// ends.
class ProcTable {
 public:
  /// A process that is not reaped yet.
  struct Process {
    std::uint64_t first = 0;  ///< Its first proc, whose limits are those of the process.
    UniqueFd pidfd;
    std::string mesh;
    std::uint64_t wave = 0;                      ///< See SignalWaves::count.
    std::unique_ptr<SharedProcess> shared = {};  ///< Set: a process of several procs.
    bool is_template = false;                    ///< A process without a proc: see Templates.
  };
  /// A process that is reaped and may have left descendants.
  struct Dead {
    std::uint64_t first = 0;
    std::vector<std::uint64_t> procs;  ///< Those that lived as long as the process.
    std::string mesh;
  };

  void add(pid_t pid, Process process, const std::vector<std::uint64_t>& procs);
  /// The process runs one more.
  void add_proc(pid_t pid, std::uint64_t id) { pids_.emplace(id, pid); }
  /// Null: there is no such process, or it is reaped.
  Process* find(pid_t pid);
  bool contains(pid_t pid) const { return processes_.contains(pid); }
  /// -1: the proc is not running.
  pid_t find_pid(std::uint64_t id) const;
  /// A proc has ended before its process.
  void end_proc(std::uint64_t id) { pids_.erase(id); }
  /// The process is reaped: its procs are exited. Returns them.
  const Dead& bury(pid_t pid);

  template <typename Visit>
  void for_each_of_mesh(const std::string& mesh, Visit visit) const {
    for (const auto& [pid, process] : processes_) {
      if (process.mesh == mesh) visit(pid);
    }
  }
  bool has_dead() const noexcept { return !dead_.empty(); }
  /// All that are exited are empty now.
  std::vector<Dead> take_dead() { return std::exchange(dead_, {}); }

 private:
  std::unordered_map<pid_t, Process> processes_;  // not reaped, so nobody else has the pid
  std::unordered_map<std::uint64_t, pid_t> pids_;
  std::vector<Dead> dead_;
};

}  // namespace meshbus::keeper
