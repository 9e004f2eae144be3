#include "agent/proc/runtime/taken_reports.h"

#include <algorithm>
#include <utility>

namespace meshbus::mesh_proc {

bool TakenReports::tell() {
  bool has_told = false;
  runs_.tell_taken([&](const wire::Envelope& envelope) {
    has_told = true;
    acknowledge_(envelope);
  });
  if (runs_.untaken() == 0) reactor_.cancel(std::exchange(timer_, 0));
  return has_told;
}

void TakenReports::watch() {
  if (timer_ == 0) look_again(kInterval);
}

void TakenReports::look_again(std::chrono::milliseconds interval) {
  timer_ = reactor_.after(interval, [this, interval] {
    timer_ = 0;
    // A handler that runs for long is looked at less and less often.
    const bool is_going_on = tell();
    if (runs_.untaken() > 0)
      look_again(is_going_on ? kInterval : std::min(2 * interval, kLongestInterval));
  });
}

}  // namespace meshbus::mesh_proc
