#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "broker/access/rate_limit.h"
#include "broker/access/recent_set.h"

namespace meshbus {

/// Decides which new connections are closed as soon as they came: those that would take the last
/// descriptors, which files and links need, and those over tcp from a network that opens too many:
/// with keys each of them costs public-key operations, even one that is refused. Pure.
class ConnectionGate {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Limits {
    /// Connections over tcp that one network may open each second, with five seconds' worth at
    /// once; 0 = any number.
    std::uint64_t per_second = 0;
    /// Descriptors from this number on are kept. The kernel gives out the lowest that is free.
    int first_kept = std::numeric_limits<int>::max();
  };
  explicit ConnectionGate(Limits limits);

  /// Why a connection with this descriptor is closed; nothing: it may stay. `network`:
  /// TcpAddress::network(); empty for a unix socket.
  std::optional<std::string> refuse(int descriptor, const std::string& network, Time now);

 private:
  Limits limits_;
  RateLimit rate_;
  RecentSet<std::string, RateLimit::Time> rested_;
};

}  // namespace meshbus
