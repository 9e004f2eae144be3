#include "common/zmtp/silence_watch.h"

#include <algorithm>
#include <utility>

namespace meshbus {

SilenceWatch::Due SilenceWatch::look(Time now, Duration other_limit) noexcept {
  const Duration limit = other_limit.count() > 0 ? std::min(limit_, other_limit) : limit_;
  if (now - std::exchange(looked_, now) > limit_ / 2) heard_ = now;
  if (now - heard_ >= limit) return Due::lost;
  if (now - pinged_ < limit_ / 3) return Due::nothing;
  pinged_ = now;
  return Due::ping;
}

}  // namespace meshbus
