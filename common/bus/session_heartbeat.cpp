#include "common/bus/session_heartbeat.h"

#include <algorithm>
#include <utility>

#include "common/base/own_pause.h"

namespace meshbus {
namespace {

constexpr std::chrono::milliseconds kLeast{50};

}  // namespace

void SessionHeartbeat::begin(std::chrono::milliseconds interval, Time now) noexcept {
  interval_ = std::max(interval, kLeast);
  last_heard_ = now;
  due_ = now + interval_ / 2;
}

SessionHeartbeat::Verdict SessionHeartbeat::check(Time now) noexcept {
  if (OwnPause(interval_ / 2).was_away(due_, now)) last_heard_ = now;
  if (now - last_heard_ > limit()) return Verdict::lost;
  due_ = now + interval_ / 2;
  return std::exchange(has_sent_, false) ? Verdict::nothing : Verdict::send;
}

}  // namespace meshbus
