#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace meshbus {

/// When a controller has to renew the leases of its meshes on one host: all of them in one message,
/// when the first of them is a third of its length old. Pure.
class LeaseBook {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// What was asked in vain is asked again after so long, or after a sixth of the shortest lease if
  /// that is less.
  static constexpr std::chrono::milliseconds kAskAgain{500};

  /// These are the meshes and the lengths of their leases from now on; those that are new are due
  /// at once.
  void set(const std::map<std::string, std::chrono::milliseconds>& leases);
  /// Nothing = there are none.
  std::optional<Time> due() const noexcept { return due_; }
  /// All that are to be renewed now: they count as renewed until failed() says otherwise.
  std::vector<std::string> renew(Time now);
  /// It was not done.
  void failed(const std::vector<std::string>& meshes, Time now);

 private:
  struct Lease {
    std::chrono::milliseconds length{0};
    Time due{};
  };
  void find_due();

  std::map<std::string, Lease> leases_;
  std::optional<Time> due_;
};

}  // namespace meshbus
