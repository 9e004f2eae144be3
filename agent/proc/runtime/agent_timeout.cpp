#include "agent/proc/runtime/agent_timeout.h"

#include <algorithm>

namespace meshbus::mesh_proc {

bool AgentTimeout::is_over(Time now, Time due) {
  if (!since_) return false;
  const Duration late = std::max(now - due, Duration::zero());
  *since_ = late > limit_ / 4 ? now : *since_ + late;
  return now - *since_ >= limit_;
}

}  // namespace meshbus::mesh_proc
