#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "agent/warden/end_sequence.h"
#include "agent/warden/exporter_process.h"
#include "agent/warden/frozen_roles.h"
#include "agent/warden/host_site.h"
#include "agent/warden/own_process.h"
#include "agent/warden/role.h"
#include "agent/warden/role_faults.h"
#include "agent/warden/role_restarts.h"
#include "agent/warden/role_starter.h"
#include "agent/warden/start_failure.h"
#include "agent/warden/upgrader.h"
#include "agent/warden/warden.h"
#include "agent/warden/warden_log.h"
#include "common/base/service_manager.h"
#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::warden {

/// The warden at work: turns the loop, hears of every end of a role, and has the host restarted or
/// ended as EndSequence and RoleRestarts decide. One thread; every wait has a deadline.
/// Large because: it has one small function for each event of the loop.
class Warden {
 public:
  explicit Warden(const WardenOptions& options);
  /// Runs until the host has ended. Returns the process exit code.
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  Started prepare();
  void start();
  void turn();
  int wait_milliseconds() const;

  void on_signals();
  void on_launcher();
  void on_lifeline(Role& role);
  void on_message(Role& role, std::string_view text);
  void on_ready();
  void reap_children();
  void on_exit(RoleName name, const std::string& how);
  void on_deadline();
  void look_for_frozen();
  void on_chaos(std::string_view order);
  void disturb_roles();
  void on_upgrade(std::string_view order);

  Role& role(RoleName name) { return roles_[static_cast<std::size_t>(name)]; }
  EndSequence::Alive alive() const;
  void enter(Phase phase);
  void end(int exit_code, std::chrono::milliseconds grace);
  void fail_start(int exit_code, const std::string& why);
  void end_without_agent();
  void sweep();
  int finish();

  const WardenOptions& options_;
  WardenLog log_;
  HostSite site_;
  RoleStarter starter_;
  std::array<Role, kRoleCount> roles_;  // by RoleName
  UniqueFd launcher_;
  OwnProcess process_;
  EndSequence sequence_;
  ServiceManager manager_;
  FrozenRoles frozen_;
  RoleFaults faults_;
  ExporterProcess exporter_;
  RoleRestarts restarts_;
  Upgrader upgrader_;
  bool has_swept_ = false;  // the keeper said so
  int exit_code_ = 0;
};

}  // namespace meshbus::warden
