#include "agent/host/liveness/failure_detector.h"

#include "wire/ranks_generated.h"

namespace meshbus::host {

FailureDetector::Limits FailureDetector::limits_of(std::chrono::milliseconds heartbeat,
                                                   std::chrono::milliseconds away) {
  return {.late = heartbeat + heartbeat / 2, .frozen = std::max(away, 2 * heartbeat)};
}

void FailureDetector::on_heartbeat(Time now) {
  const bool was_frozen = trouble_ == wire::Trouble::frozen;
  const bool is_late = clear_ >= start() + limits_.late;
  if (was_frozen || is_late) {
    silence_ = now - heard_;
    in_time_ = 0;
    trouble_ = wire::Trouble::slow;
  } else if (trouble_ == wire::Trouble::slow && ++in_time_ >= kRecovery) {
    trouble_ = wire::Trouble::none;
    silence_ = {};
  }
  heard_ = now;
}

void FailureDetector::on_clear(Time asked) {
  clear_ = std::max(clear_, asked);
}

void FailureDetector::on_check(Time now) {
  if (trouble_ == wire::Trouble::frozen || clear_ < start() + limits_.frozen) return;
  silence_ = now - heard_;
  trouble_ = wire::Trouble::frozen;
}

bool FailureDetector::is_doubtful(Time now) const {
  if (trouble_ == wire::Trouble::frozen) return false;
  const auto silence = now - start();
  if (silence >= limits_.frozen) return clear_ < start() + limits_.frozen;
  return silence >= limits_.late && clear_ < start() + limits_.late;
}

}  // namespace meshbus::host
