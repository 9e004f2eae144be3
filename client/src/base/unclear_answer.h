#pragma once

#include "meshbus/result.h"

namespace meshbus {

/// Whether an answer to an order leaves open what became of it: its receiver may be replaced, or
/// the way there may come back. Such an order is repeated where that does no harm.
inline bool is_unclear(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::timeout:
    case ErrorCode::fate_unknown:
    case ErrorCode::undeliverable:
    case ErrorCode::host_unreachable:
    case ErrorCode::link_lost:
    case ErrorCode::queue_full:
    case ErrorCode::no_such_proc:
    case ErrorCode::expired: return true;
    default: return false;
  }
}

}  // namespace meshbus
