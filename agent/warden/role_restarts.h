#pragma once

#include <optional>
#include <span>
#include <string>

#include "agent/warden/end_sequence.h"
#include "agent/warden/exporter_process.h"
#include "agent/warden/restart_policy.h"
#include "agent/warden/role.h"
#include "agent/warden/role_starter.h"
#include "agent/warden/warden_log.h"

namespace meshbus::warden {

/// Starts the broker and the agent again when they end while the host runs, as RestartPolicy says.
/// One thread. All that it is made of outlives it.
class RoleRestarts {
 public:
  using Time = RestartPolicy::Time;

  /// `is_agent_vital`: the host ends with its agent.
  RoleRestarts(std::span<Role, kRoleCount> roles, RoleStarter& starter, ExporterProcess& exporter,
               const WardenLog& log, bool is_agent_vital)
      : roles_(roles),
        starter_(starter),
        exporter_(exporter),
        log_(log),
        is_agent_vital_(is_agent_vital) {}

  /// The broker has ended. Procs live without one, so a broker that ends again and again ends no
  /// job: it is restarted for as long as the host runs.
  void on_broker_lost(const std::string& how, Time now);
  /// When turn() has something to do.
  std::optional<Time> due() const noexcept;
  /// Starts the broker or the agent when that is due. False: as for on_agent_lost().
  bool turn(Time now);
  /// The agent has ended; the keeper holds the procs, which do not notice. False: it does not run
  /// again, so the host has to end. When the agent said that it had lost its keeper, its restart
  /// waits: the keeper's end, which ends the host, may be heard of later.
  bool on_agent_lost(const std::string& how, Time now);
  /// Whether an agent that ends now is started again.
  bool may_restart_agent(Time now) const {
    return !is_agent_vital_ && agent_policy_.may_restart(now);
  }

 private:
  Role& role(RoleName name) { return roles_[static_cast<std::size_t>(name)]; }
  void restart_broker(Time now);
  bool restart_agent(const std::string& how, Time now);

  std::span<Role, kRoleCount> roles_;
  RoleStarter& starter_;
  ExporterProcess& exporter_;
  const WardenLog& log_;
  bool is_agent_vital_;
  RestartPolicy broker_policy_{{.most = std::nullopt}};
  RestartPolicy agent_policy_{{.most = RestartPolicy::kAgentRestarts}};
  std::optional<Time> broker_due_;  ///< When the dead broker is started again.
  std::optional<Time> agent_due_;   ///< When an agent that lost its keeper is started again.
  std::string agent_end_;           ///< How that one ended.
};

}  // namespace meshbus::warden
