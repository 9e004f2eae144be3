#include "agent/warden/frozen_roles.h"

#include "agent/warden/frozen.h"

namespace meshbus::warden {

void FrozenRoles::start(Time now) {
  if (limit_.count() > 0) due_ = now;
}

std::vector<FrozenRoles::Finding> FrozenRoles::look(Time now, std::span<Role* const> roles) {
  const auto interval = limit_ / 3;
  const bool fresh_grace = was_away(now, *due_, interval);
  due_ = now + interval;
  std::vector<Finding> found;
  for (Role* const role : roles) {
    if (!role->alive()) continue;
    if (fresh_grace || !role->lifeline) role->silence.start_anew(now);
    const Silence silence = role->silence.on_look(now, look_at_threads(role->pid), limit_);
    const auto length =
        std::chrono::duration_cast<std::chrono::milliseconds>(role->silence.length(now));
    if (silence != Silence::brief && silence != Silence::ended)
      found.push_back({role, silence, length});
    role->lifeline.send("ping");
  }
  return found;
}

}  // namespace meshbus::warden
