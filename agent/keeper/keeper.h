#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "agent/keeper/proc_starter.h"
#include "agent/keeper/protocol.h"
#include "agent/keeper/replay_registry.h"
#include "agent/keeper/shared_process.h"
#include "agent/os/cgroup.h"
#include "agent/os/lifeline.h"
#include "agent/os/limit_groups.h"
#include "agent/os/sweep.h"
#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::keeper {

struct KeeperOptions {
  UniqueFd lifeline;           ///< To the warden.
  UniqueFd agent;              ///< To the agent.
  UniqueFd lock;               ///< The lock of the run directory: held as long as we live, also after the warden. May be empty.
  std::string run_dir;         ///< Removed at the end when the warden is dead. May be empty.
  std::string cgroup;          ///< The host's cgroup v2 directory, for containment by it; else empty.
  os::LimitPlaces limits;      ///< Where procs with limits get cgroups of their own.
  bool pid_namespace = false;  ///< We are process 1 of one of our own.
  std::uint64_t mark = 0;      ///< Hard RLIMIT_RTTIME of all procs; 0: none.
};

/// Spawns and reaps the procs of one host. One thread, one epoll set; decides nothing. Outlives the agent: an agent that is gone costs no
/// proc, and what it asked for is still done; the warden says what happens then, and may send another agent's socket along the lifeline
/// ("agent"), who is told all that the last one had not said Forget about. Whatever ends it, it kills everything below it first, unless it
/// gets SIGKILL, and then the kernel kills its procs and the warden the rest.
class Keeper {
 public:
  explicit Keeper(KeeperOptions options);
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  /// Runs until told to sweep, or until the warden is gone. Returns the process exit code. Takes over signals; becomes a subreaper.
  int run();

 private:
  struct Proc {
    std::uint64_t id = 0;
    UniqueFd pidfd;
    std::string mesh;
    std::uint64_t wave = 0;                 // the last in which it was told to end
    std::unique_ptr<SharedProcess> shared;  // a process of several; `id` is that of the first
  };
  /// What is to become a process.
  struct Queued {
    std::shared_ptr<const PreparedSpec> prepared;
    std::vector<os::ProcSpec> procs;  // the first one has the bootstrap
    bool shares = false;              // its bootstrap names several
  };
  struct Mesh {
    std::size_t procs = 0;  // alive, or dead and not gone
    std::unique_ptr<os::Cgroup> cgroup;
  };
  enum class End { none, told, warden_gone };
  /// What epoll tells us: small numbers for our own descriptors, a pid otherwise (pid 1 and 2 are never our children).
  enum Source : std::uint64_t { lifeline_source = 0x1'0000'0000, agent_source, signal_source, link_sources = 0x2'0000'0000 };

  Result<void> set_up();
  void turn();
  int wait_milliseconds() const;
  bool watch(int fd, int operation, std::uint32_t events, std::uint64_t source);

  void on_lifeline();
  void on_agent();
  bool hear_agent();
  void adopt_agent(UniqueFd socket);
  void replay();
  void on_signals();
  void on_spawn(os::SpawnBatch batch);
  void on_signal(const Signal& signal);
  void on_kill_mesh(const KillMesh& request);

  void signal_some();
  void spawn_some();
  void start_one(Queued queued);
  std::vector<Birth> start_process(Queued& queued, UniqueFd& pidfd, std::unique_ptr<SharedProcess>& shared);
  Result<const os::Cgroup*> cgroup_of(const std::string& mesh);
  ProcStarter::Started start(const PreparedSpec& prepared, os::ProcSpec proc, UniqueFd link, const os::Cgroup* mesh_cgroup);
  void leave_mesh(const std::string& mesh);

  void on_pidfd(pid_t pid);
  void on_link(pid_t pid);
  bool hear_link(Proc& proc);
  void bury(pid_t pid, const siginfo_t& info, const rusage& usage);
  void chase_orphans();
  void reap_orphans();

  void report(Birth birth);
  void report(const Exit& exit);
  void report(const Gone& gone);
  void report(Replayed replayed);
  void report_cancelled(std::uint64_t id);
  void report_unborn(std::uint64_t id, os::SpawnFailure failure);
  template <typename Event>
  void pack(Event event);
  void flush();
  void drop_agent();
  int sweep_and_end();

  os::Lifeline lifeline_;
  UniqueFd agent_;
  UniqueFd lock_;
  std::string run_dir_;
  std::string cgroup_;
  bool pid_namespace_;
  std::uint64_t mark_;

  UniqueFd epoll_;
  UniqueFd signals_;
  std::unique_ptr<ProcStarter> starter_;
  os::LimitGroups limits_;
  std::unique_ptr<os::Cgroup> birthplace_;  // of procs without a cgroup of their own; empty: ours
  os::Sweeper orphans_;
  static constexpr std::size_t outbox_limit = 64;  ///< Packets that the agent has not taken: spawning waits then.
  std::deque<Queued> queue_;
  std::unordered_set<std::uint64_t> queued_;  // the ids in it
  ReplayRegistry replay_registry_;
  std::unordered_map<pid_t, Proc> procs_;  // by pid: not reaped, so nobody else has it
  std::unordered_map<std::uint64_t, pid_t> pids_;
  std::unordered_map<std::string, Mesh> meshes_;
  struct Dead {
    std::uint64_t first;               // of the process: its limits go by it
    std::vector<std::uint64_t> procs;  // that lived as long as the process
    std::string mesh;
  };
  std::deque<Signal> asked_signals_;
  const std::size_t procs_per_wave_;
  std::uint64_t wave_ = 0;
  std::size_t wave_left_ = 0;  // of its procs, those that have not ended
  std::chrono::steady_clock::time_point next_wave_{};
  std::vector<Dead> dead_;  // reaped, their descendants perhaps not
  EventPacker packer_;
  std::chrono::steady_clock::time_point packing_since_{};
  std::deque<os::Packet> outbox_;
  std::chrono::steady_clock::time_point next_chase_{};  // while somebody is dead and not gone
  std::chrono::steady_clock::time_point chase_not_before_{};
  std::chrono::steady_clock::duration chase_pause_{};
  bool has_dead_child_ = false;  // perhaps
  std::chrono::steady_clock::time_point next_reap_{};
  bool agent_wants_write_ = false;
  End end_ = End::none;
};

}  // namespace meshbus::keeper
