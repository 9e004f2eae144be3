#pragma once

#include <cstdint>
#include <string>

#include "agent/keeper/agent_channel.h"
#include "agent/keeper/event_set.h"
#include "agent/keeper/mesh_cgroups.h"
#include "agent/keeper/proc_table.h"
#include "agent/keeper/process_starter.h"

namespace meshbus::keeper {

/// Registers what was started: it is watched, in the table, and reported to the agent. One thread.
class Births {
 public:
  /// The number of a process of several procs in the event set is this plus its pid; that of its
  /// pidfd is its pid.
  static constexpr std::uint64_t kLinkSources = 0x2'0000'0000;

  Births(AgentChannel& agent, EventSet& events, ProcTable& table, MeshCgroups& cgroups)
      : agent_(agent), events_(events), table_(table), cgroups_(cgroups) {}

  /// The process of a mesh, or the failure to start it. A process that cannot be watched is killed,
  /// and its births fail. True: it runs.
  bool enter(ProcessStarter::Outcome outcome, const std::string& mesh);
  /// Procs that join a process of the table. Each that it cannot be told of fails.
  void join(ProcessStarter::Joining joining, ProcTable::Process& process);
  /// A proc that will not be started.
  void refuse(std::uint64_t id, os::SpawnFailure failure);

 private:
  AgentChannel& agent_;
  EventSet& events_;
  ProcTable& table_;
  MeshCgroups& cgroups_;
};

}  // namespace meshbus::keeper
