#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <sys/types.h>

#include "agent/warden/end_sequence.h"
#include "agent/warden/restart_policy.h"
#include "agent/warden/role.h"
#include "agent/warden/role_starter.h"
#include "agent/warden/warden_log.h"

namespace meshbus::warden {

/// The process that serves the metrics of a host, if they are asked for. It is no role: it holds
/// nothing, nobody waits for it, and its end never ends the host. One thread.
class ExporterProcess {
 public:
  using Time = std::chrono::steady_clock::time_point;

  ExporterProcess(bool is_wanted, RoleStarter& starter, const WardenLog& log);

  /// All roles are ready: it is started with the next turn().
  void start(Time now);
  /// When turn() has something to do.
  std::optional<Time> due() const noexcept { return due_; }
  /// Starts it when that is due, and tells it how the roles are when that has changed.
  void turn(Time now, std::span<const Role> roles);
  /// A child has ended: true when it was this one.
  bool on_exit(pid_t pid, const std::string& how, Time now);
  /// Notes a restart of that role.
  void count_restart(RoleName role) noexcept { ++restarts_[static_cast<std::size_t>(role)]; }
  bool is_wanted() const noexcept { return is_wanted_; }
  /// Has another one started in its place, of the programs that are started by now.
  void replace();
  /// -1: it does not run.
  pid_t pid() const noexcept { return process_.pid; }
  /// Without a wait: it holds nothing.
  void kill();

 private:
  bool is_wanted_;
  bool is_replaced_ = false;  ///< Its end is on purpose.
  RoleStarter& starter_;
  const WardenLog& log_;
  Role process_;
  RestartPolicy policy_;
  std::optional<Time> due_;
  std::array<std::uint64_t, kRoleCount> restarts_{};
  std::string told_;  ///< The last report.
};

}  // namespace meshbus::warden
