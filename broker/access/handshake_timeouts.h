#pragma once

#include <chrono>
#include <unordered_map>
#include <vector>

namespace meshbus {

/// When to close each pending connection, one that has not registered, by its descriptor: when no
/// Hello has come in time, and a while after a refusal. Pure: the time comes from the caller.
class HandshakeTimeouts {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Limits {
    /// From the connection to Hello.
    std::chrono::milliseconds hello;
    /// For reading why the connection was refused.
    std::chrono::milliseconds refused;
  };
  explicit HandshakeTimeouts(Limits limits) : limits_(limits) {}

  void opened(int descriptor, Time now) { pending_[descriptor] = {now + limits_.hello, false}; }
  /// The connection has ended, or has registered.
  void done(int descriptor) { pending_.erase(descriptor); }
  /// Does nothing for a descriptor that is not pending: another connection has it by now.
  void refused(int descriptor, Time now);
  bool empty() const noexcept { return pending_.empty(); }
  /// Connections whose time is over; they are forgotten. A silent connection has to be overdue at
  /// two calls in a row: by the second one, a Hello that came in time has been read, even if this
  /// process was stopped meanwhile.
  std::vector<int> take_overdue(Time now);

 private:
  struct Pending {
    Time due;
    bool is_refused;
    bool was_overdue = false;
  };
  Limits limits_;
  std::unordered_map<int, Pending> pending_;
};

}  // namespace meshbus
