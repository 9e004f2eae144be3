#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>

#include "broker/peers/peer.h"

namespace meshbus {

/// Whose handshake goes on next. The arithmetic of keys costs 0.1 ms and more each time, and
/// anybody may ask for it: it takes a quarter of this thread's time at most, in slices of one
/// handshake each. Pure: the time comes from the caller.
class HandshakeTurns {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  /// Whether it is this connection's turn now; otherwise it waits in line, once.
  bool take(ConnectionId id, Time now);
  /// The next in line, if its time has come.
  std::optional<ConnectionId> next(Time now);
  /// When the next in line may go on; nothing when nobody waits.
  std::optional<Time> due() const;
  /// After a turn that took so long, until now.
  void spent(Duration time, Time now);

 private:
  std::deque<ConnectionId> waiting_;
  Time rested_{};
};

}  // namespace meshbus
