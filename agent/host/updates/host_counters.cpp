#include "agent/host/updates/host_counters.h"

#include "wire/codes_generated.h"

namespace meshbus::host {

wire::HostCountersT make_host_counters(const ProcTable& table, std::uint64_t long_turns) {
  const HostCounts& counts = table.counts();
  wire::HostCountersT counters;
  counters.meshes = table.meshes().size();
  counters.spawned = counts.spawned;
  counters.restarted = counts.restarted;
  counters.causes.assign(counts.causes.begin(), counts.causes.end());
  counters.failures.assign(counts.failures.begin(), counts.failures.end());
  counters.long_turns = long_turns;
  counters.states.resize(static_cast<std::size_t>(wire::ProcState::MAX) + 1);
  counters.troubles.resize(static_cast<std::size_t>(wire::Trouble::MAX) + 1);
  for (const auto& [name, mesh] : table.meshes()) {
    for (const auto& [rank, proc] : mesh->procs) {
      ++counters.states[static_cast<std::size_t>(proc->state.state())];
      if (proc->has_ended()) continue;
      ++counters.troubles[static_cast<std::size_t>(proc->trouble.trouble())];
    }
  }
  return counters;
}

}  // namespace meshbus::host
