#include "common/base/own_pause.h"

namespace meshbus {

OwnPause::Duration OwnPause::length(Time due, Time now) const noexcept {
  const Duration late = now - due;
  return late > Duration::zero() && late >= limit_ ? late : Duration::zero();
}

}  // namespace meshbus
