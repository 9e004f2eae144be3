#include "agent/warden/restart_policy.h"

#include <algorithm>

namespace meshbus::warden {

std::optional<std::chrono::milliseconds> RestartPolicy::on_exit(Time now) {
  while (!granted_.empty() && now - granted_.front() > kWindow) granted_.pop_front();
  if (limits_.most && granted_.size() >= *limits_.most) return std::nullopt;
  granted_.push_back(now);
  if (limits_.most || granted_.size() == 1) return std::chrono::milliseconds(0);
  constexpr std::size_t most_doublings = 10;
  const std::size_t doublings = std::min(granted_.size() - 2, most_doublings);
  return std::min(kFirstDelay * (1 << doublings), kLongestDelay);
}

bool RestartPolicy::may_restart(Time now) const {
  const auto recent = std::count_if(granted_.begin(), granted_.end(),
                                    [now](Time one) { return now - one <= kWindow; });
  return !limits_.most || static_cast<std::size_t>(recent) < *limits_.most;
}

}  // namespace meshbus::warden
