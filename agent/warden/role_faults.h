#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "agent/warden/end_sequence.h"

namespace meshbus::warden {

/// The faults that broker and agent have on purpose (meshbus chaos), and their ends. Pure: the time
/// is the caller's.
class RoleFaults {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// The agent's answer to the requester leaves within that time, before its own end for instance.
  static constexpr std::chrono::milliseconds kDelay{100};

  struct Order {
    RoleName role;
    bool is_kill;
    std::chrono::milliseconds length{0};
  };
  /// "freeze broker 5000", "kill agent 0". Nothing: it is something else.
  static std::optional<Order> parse(std::string_view text);

  /// The process of the role is killed, or stopped for a time. False: the role is being disturbed
  /// already.
  bool add(const Order& order, pid_t pid, Time now);

  struct Step {
    RoleName role;
    pid_t pid;
    int signal;
  };
  /// The signals to be sent now. A process that is not the role's any more gets none: `pids` are
  /// those of the roles, by RoleName.
  std::vector<Step> take_steps(Time now, const std::array<pid_t, kRoleCount>& pids);
  /// The same when the host ends: what is stopped goes on, and nothing begins.
  std::vector<Step> take_ends(const std::array<pid_t, kRoleCount>& pids);
  std::optional<Time> due() const;

 private:
  struct Fault {
    pid_t pid;
    bool is_kill;
    Time begin;
    Time end;
    bool has_begun = false;
  };

  std::array<std::optional<Fault>, kRoleCount> faults_;  // by RoleName
};

}  // namespace meshbus::warden
