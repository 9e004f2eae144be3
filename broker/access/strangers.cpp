#include "broker/access/strangers.h"

#include <algorithm>
#include <utility>

namespace meshbus {

void Strangers::refused(int descriptor, Time now) {
  const auto found = all_.find(descriptor);
  if (found == all_.end() || found->second.is_refused) return;
  found->second = {std::min(found->second.due, now + limits_.refused), true};
}

std::vector<int> Strangers::overdue(Time now) {
  std::vector<int> found;
  for (auto& [descriptor, stranger] : all_) {
    if (now < stranger.due) continue;
    if (stranger.is_refused || std::exchange(stranger.is_noticed, true))
      found.push_back(descriptor);
  }
  for (const int descriptor : found) all_.erase(descriptor);
  return found;
}

}  // namespace meshbus
