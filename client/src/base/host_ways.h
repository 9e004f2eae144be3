#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "common/bus/session.h"
#include "meshbus/address.h"

namespace meshbus {

/// How to come to hosts whose address alone does not say it. Any thread.
class HostWays {
 public:
  struct Way {
    /// The socket of a host of this user on this machine, whatever address it is known by.
    std::optional<HostAddr> socket;
    /// Keys that are in no file.
    std::optional<CurveKeys> keys;
  };

  /// For the connections that are made from now on.
  void set(const HostAddr& host, Way way) {
    const std::lock_guard lock(mutex_);
    ways_.insert_or_assign(host, std::move(way));
  }
  /// An empty one for other hosts.
  Way find(const HostAddr& host) const {
    const std::lock_guard lock(mutex_);
    const auto found = ways_.find(host);
    return found == ways_.end() ? Way() : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<HostAddr, Way> ways_;  // guarded by mutex_
};

}  // namespace meshbus
