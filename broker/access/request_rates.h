#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "broker/access/rate_limit.h"
#include "broker/access/recent_set.h"

namespace meshbus {

/// How often each principal may ask: all its connections share one limit. Pure: the time comes from
/// the caller.
class RequestRates {
 public:
  using Time = RateLimit::Time;
  /// `most`: principals that are remembered. There are no more of them than keys that may connect.
  RequestRates(std::uint64_t per_second, std::uint64_t at_once, std::size_t most = 65536)
      : limit_(per_second, at_once), rested_(most) {}

  /// Whether that principal (Identity::principal) may ask once more.
  bool take(const std::string& principal, Time now) {
    const Time* known = rested_.find(principal);
    Time rested = known == nullptr ? Time{} : *known;
    if (!limit_.take(rested, now)) return false;
    rested_.add(principal, rested);
    return true;
  }

 private:
  RateLimit limit_;
  RecentSet<std::string, Time> rested_;
};

}  // namespace meshbus
