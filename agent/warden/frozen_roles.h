#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "agent/warden/role.h"
#include "agent/warden/role_silence.h"

namespace meshbus::warden {

/// Asks the roles for a sign of life again and again, and finds those that give none (spec 4.7).
/// One thread; it kills nothing.
class FrozenRoles {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `limit`: the silence that makes a role frozen; 0: roles are never looked at.
  explicit FrozenRoles(std::chrono::milliseconds limit) : limit_(limit) {}

  /// The first look, with which the next ones are compared, is due now.
  void start(Time now);
  /// When the next look is due; nothing: never.
  std::optional<Time> due() const noexcept { return due_; }

  struct Finding {
    Role* role;
    Silence silence;  ///< Neither brief nor ended.
    std::chrono::milliseconds length;
  };
  /// Looks at the roles that are alive, and pings them. Returns those to say or to do something
  /// about.
  std::vector<Finding> look(Time now, std::span<Role* const> roles);

 private:
  std::chrono::milliseconds limit_;
  std::optional<Time> due_;
};

}  // namespace meshbus::warden
