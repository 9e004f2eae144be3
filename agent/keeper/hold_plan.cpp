#include "agent/keeper/hold_plan.h"

#include <algorithm>
#include <cerrno>

namespace meshbus::keeper {

int HoldPlan::add(const Hold& hold, Time now) {
  if (hold.for_ms == 0 || hold.percent == 0 || hold.percent > 100) return EINVAL;
  if (held_.contains(hold.id)) return EALREADY;
  if (held_.size() >= hold.most) return EBUSY;
  const std::chrono::milliseconds length(hold.for_ms);
  const auto stopped = hold.percent == 100 ? length : kPeriod * hold.percent / 100;
  held_.emplace(hold.id, Held{.end = now + length, .next = now, .stopped = stopped});
  return 0;
}

std::vector<HoldPlan::Step> HoldPlan::take_steps(Time now) {
  std::vector<Step> steps;
  for (auto entry = held_.begin(); entry != held_.end();) {
    auto& [id, held] = *entry;
    if (now >= held.end) {
      if (held.is_stopped) steps.push_back({id, false});
      entry = held_.erase(entry);
      continue;
    }
    ++entry;
    if (now < held.next) continue;
    held.is_stopped = !held.is_stopped;
    steps.push_back({id, held.is_stopped});
    // Counted from now: a keeper that comes late does not owe the ranks the stops that it missed.
    held.next = std::min(held.end, now + (held.is_stopped ? held.stopped : kPeriod - held.stopped));
  }
  return steps;
}

HoldPlan::Time HoldPlan::due() const {
  Time due = Time::max();
  for (const auto& [id, held] : held_) due = std::min(due, std::min(held.next, held.end));
  return due;
}

}  // namespace meshbus::keeper
