#pragma once

#include "meshbus/rank_report.h"

namespace meshbus {

/// Whether the rank counts as lost because nothing is heard of its host, so it may still run. A
/// host that tells itself that its ranks are dead uses another code.
inline bool is_given_up(const RankReport& rank) noexcept {
  return rank.cause == Cause::host_lost && rank.code == ErrorCode::host_unreachable;
}

}  // namespace meshbus
