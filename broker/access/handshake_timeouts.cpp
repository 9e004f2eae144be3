#include "broker/access/handshake_timeouts.h"

#include <algorithm>
#include <utility>

namespace meshbus {

void HandshakeTimeouts::refused(int descriptor, Time now) {
  const auto found = pending_.find(descriptor);
  if (found == pending_.end() || found->second.is_refused) return;
  found->second = {std::min(found->second.due, now + limits_.refused), true};
}

std::vector<int> HandshakeTimeouts::take_overdue(Time now) {
  std::vector<int> overdue;
  for (auto& [descriptor, pending] : pending_) {
    if (now < pending.due) continue;
    if (pending.is_refused || std::exchange(pending.was_overdue, true))
      overdue.push_back(descriptor);
  }
  for (const int descriptor : overdue) pending_.erase(descriptor);
  return overdue;
}

}  // namespace meshbus
