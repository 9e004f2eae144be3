#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "agent/warden/exporter_process.h"
#include "agent/warden/role.h"
#include "agent/warden/role_starter.h"
#include "agent/warden/upgrade_plan.h"
#include "agent/warden/warden_log.h"

namespace meshbus::warden {

/// Replaces broker, agent and exporter by those of another folder, or of the same one after its
/// files have changed, as UpgradePlan says. Tells each agent how that goes, and which releases run:
///
///     roles ROLE PID RELEASE PROGRAM               a line for each; RELEASE "-": it did not say
///     upgraded NUMBER OUTCOME STARTED_NS ENDED_NS
///     FOLDER
///     REQUESTER
///     in words
///
/// One thread. All that it is made of outlives it.
class Upgrader {
 public:
  using Time = UpgradePlan::Time;

  Upgrader(std::span<Role, kRoleCount> roles, RoleStarter& starter, ExporterProcess& exporter,
           const WardenLog& log)
      : roles_(roles), starter_(starter), exporter_(exporter), log_(log) {}

  /// "FOLDER\nREQUESTER". Answers "ok NUMBER", or why not. The agent has looked at the programs.
  std::string begin(std::string_view order, Time now);
  /// When turn() has something to do.
  std::optional<Time> due() const noexcept { return plan_.due(); }
  /// Returns a role that does not run and cannot be started by this object: the warden's business.
  std::optional<RoleName> turn(Time now);
  /// A role has said that it is ready. Returns what turn() does.
  std::optional<RoleName> on_ready(RoleName name, Time now);
  /// A role has ended. False: it is none that is being replaced, so that is the warden's business.
  bool on_exit(RoleName name, const std::string& how, Time now);
  /// Tells the agent, if it is there.
  void tell() const;

 private:
  Role& role(RoleName name) { return roles_[static_cast<std::size_t>(name)]; }
  /// Ends the role that is to be replaced; it is started when it has ended. False: it did not run,
  /// and could not be started either.
  bool replace(Time now);
  /// False: it cannot be started, nor as it was before.
  bool start(Time now);
  void on_trouble(const std::string& why);
  void finish();

  std::span<Role, kRoleCount> roles_;
  RoleStarter& starter_;
  ExporterProcess& exporter_;
  const WardenLog& log_;
  UpgradePlan plan_;
  struct Record {
    std::uint32_t number = 0;
    std::string requester;
    std::filesystem::path before;
    std::filesystem::path after;
    std::string detail;
    std::int64_t started_ns = 0;
    std::int64_t ended_ns = 0;
  };
  Record record_;
  bool is_late_ = false;  ///< The replacement was killed because it was not ready in time.
};

}  // namespace meshbus::warden
