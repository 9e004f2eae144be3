#include "broker/links/link_fault.h"

#include <algorithm>

namespace meshbus {

std::optional<LinkFault::Time> LinkFault::closed_until(Time now) {
  if (!is_active(now)) return std::nullopt;
  if (order_.kind != Kind::delay) return order_.end;
  if (!waits_since_) waits_since_ = now;
  const Time open = std::min(*waits_since_ + order_.delay, order_.end);
  if (now < open) return open;
  waits_since_.reset();
  return std::nullopt;
}

}  // namespace meshbus
