#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>

#include "agent/keeper/agent_channel.h"
#include "agent/keeper/births.h"
#include "agent/keeper/event_set.h"
#include "agent/keeper/mesh_cgroups.h"
#include "agent/keeper/orphan_pace.h"
#include "agent/keeper/proc_signals.h"
#include "agent/keeper/proc_table.h"
#include "agent/keeper/process_starter.h"
#include "agent/keeper/spawn_queue.h"
#include "agent/keeper/templates.h"
#include "agent/os/lifeline.h"
#include "agent/os/limit_places.h"
#include "agent/os/sweep.h"
#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::keeper {

/// What a keeper is started with.
struct KeeperOptions {
  UniqueFd lifeline;    ///< To the warden.
  UniqueFd agent;       ///< To the agent.
  UniqueFd lock;        ///< The lock of the run directory: held as long as we live. May be empty.
  std::string run_dir;  ///< Removed at the end when the warden is dead. May be empty.
  std::string cgroup;   ///< The host's cgroup v2 directory, for containment by it; else empty.
  os::LimitPlaces limits;         ///< Where procs with limits get cgroups of their own.
  bool pid_namespace = false;     ///< We are process 1 of one of our own.
  std::uint64_t process_tag = 0;  ///< Hard RLIMIT_RTTIME of all procs; 0: none.
  std::optional<int> oom_score;   ///< The score of procs, when it is not to be ours.
  std::string release;            ///< Said to the warden. Empty: nothing is.
};

/// Spawns and reaps the procs of one host. One thread, one epoll set; decides nothing. What happens
/// to a proc in which state: ProcTable. The keeper itself:
///
/// | event                  | running                          | ending                        |
/// |------------------------|----------------------------------|-------------------------------|
/// | agent lost             | keep procs, do what it asked for | -                             |
/// | warden: agent SOCKET   | replay everything to it          | -                             |
/// | warden: ping           | pong                             | -                             |
/// | warden: sweep or stop  | ending                           | -                             |
/// | SIGTERM, SIGINT        | ending                           | -                             |
/// | warden's lifeline ends | ending, the agent hears nothing  | remove the run directory, too |
/// | no child left          | -                                | "swept", exit                 |
///
/// Whatever ends the keeper, it kills everything below it first. After SIGKILL the kernel kills its
/// procs, and the warden the rest.
class Keeper {
 public:
  explicit Keeper(KeeperOptions options);
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  /// Runs until told to sweep, or until the warden is gone. Returns the process exit code. Takes
  /// over signals; becomes a subreaper.
  int run();

 private:
  enum class End { none, told, warden_gone };
  /// What an event is about: small numbers for our own descriptors, a pid otherwise.
  enum Source : std::uint64_t {
    lifeline_source = 0x1'0000'0000,
    agent_source,
    signal_source,
  };

  Result<void> prepare();
  void turn();
  int wait_milliseconds() const;

  void on_lifeline();
  void on_agent();
  void on_signals();
  void on_spawn(os::SpawnBatch batch);
  void on_signal(const Signal& signal);
  void on_kill_mesh(const KillMesh& request);
  RequestHandlers handlers();

  void spawn_some();
  void start_one(QueuedProcess queued);

  void on_pidfd(pid_t pid);
  void on_link(pid_t pid);
  bool receive_ends(ProcTable::Process& process);
  void bury(pid_t pid, const siginfo_t& info, const rusage& usage);
  void look_for_orphans();
  void chase_orphans();
  void reap_orphans();

  void flush();
  int sweep_and_end();
  void remove_host();

  KeeperOptions options_;
  os::Lifeline lifeline_;
  EventSet events_;
  UniqueFd signals_;
  MeshCgroups cgroups_;
  std::optional<ProcessStarter> starter_;
  ProcTable table_;
  AgentChannel agent_;
  Births births_;
  Templates templates_;
  SpawnQueue queue_;
  ProcSignals procs_;
  os::Sweeper orphans_;
  OrphanPace pace_;
  End end_ = End::none;
};

}  // namespace meshbus::keeper
