#include "common/bus/outgoing_room.h"

#include <string>

namespace meshbus {

void OutgoingRoom::report(const Postbox::Load& now) {
  const std::lock_guard lock(mutex_);
  last_ = now;
  if (waiting_ > 0) changed_.notify_all();
}

bool OutgoingRoom::wait(const Postbox::Load& size, Time until) {
  std::unique_lock lock(mutex_);
  ++waiting_;
  const bool has_come = changed_.wait_until(lock, until, [&] { return has_room(last_, size); });
  --waiting_;
  return has_come;
}

Error OutgoingRoom::is_full(const Postbox::Load& now) const {
  return {ErrorCode::queue_full,
          std::to_string(now.bytes) + " bytes wait to leave; the limit is " +
              std::to_string(most_.bytes) + "; " + std::to_string(now.queued) +
              " messages wait to leave; the limit is " + std::to_string(most_.queued) + "; " +
              std::to_string(now.outstanding) +
              " messages are not known to be taken; the limit is " +
              std::to_string(Postbox::kMostOutstanding)};
}

}  // namespace meshbus
