#pragma once

#include <chrono>
#include <unordered_map>
#include <vector>

namespace meshbus {

/// Connections that nobody has registered by, by their descriptors, and when each is to be hung up
/// on: who does not say Hello in time, and who was refused and stays. Pure: the time comes from the
/// caller.
class Strangers {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Limits {
    /// From the connection to Hello.
    std::chrono::milliseconds hello;
    /// For reading why one was refused.
    std::chrono::milliseconds refused;
  };
  explicit Strangers(Limits limits) : limits_(limits) {}

  void came(int descriptor, Time now) { all_[descriptor] = {now + limits_.hello, false}; }
  /// Has ended, or is registered.
  void left(int descriptor) { all_.erase(descriptor); }
  /// Whoever is not known here is somebody else by now.
  void refused(int descriptor, Time now);
  bool empty() const noexcept { return all_.empty(); }
  /// Whose time is over; they are forgotten. Of those who have said nothing, only who was overdue
  /// the last time, too: what came in time has been read by then, even if this process was stopped
  /// meanwhile.
  std::vector<int> overdue(Time now);

 private:
  struct Stranger {
    Time due;
    bool is_refused;
    bool is_noticed = false;
  };
  Limits limits_;
  std::unordered_map<int, Stranger> all_;
};

}  // namespace meshbus
