#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace meshbus {

/// When the leases of a launcher's meshes are to be renewed: when a third of the length has passed.
/// Pure: no clock, socket or thread.
class LeaseRenewer {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Lease {
    std::string name;
    /// What the hosts are told; 0 = each host keeps the length that it has.
    std::chrono::milliseconds length{0};
    /// The shortest length that any host has; 0 = no lease, never due.
    std::chrono::milliseconds shortest{0};
  };

  /// Those of all leases that are to be renewed now; they count as renewed. New ones are due at
  /// once.
  std::vector<Lease> due(std::vector<Lease> all, Time now);
  /// Makes that one due at once.
  void hurry(const std::string& name) { due_.erase(name); }

 private:
  std::map<std::string, Time> due_;
};

}  // namespace meshbus
