#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "agent/os/spawner.h"
#include "agent/warden/host_site.h"
#include "agent/warden/role.h"
#include "agent/warden/start_failure.h"
#include "agent/warden/warden.h"
#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::warden {

/// Starts the keeper, the broker and the agent of one host, with what they share: the secret, and
/// what one agent leaves to the next. One thread. Borrows options and site.
class RoleStarter {
 public:
  RoleStarter(const WardenOptions& options, HostSite& site) : options_(options), site_(site) {}

  /// Call it when signals are settled, before anything else. Lowers the OOM score of this process
  /// and of the roles.
  Started prepare();
  os::Spawner& spawner() { return *spawner_; }
  /// Call it when the site is prepared.
  void choose_address();

  Result<void> start_keeper(Role& keeper);
  Result<void> start_broker(Role& broker);
  /// An agent that is started before the broker serves has to be told the address.
  Result<void> start_agent(Role& agent);
  /// Starts another agent; the keeper gets its socket along the lifeline.
  Result<void> restart_agent(Role& agent, const Role& keeper);
  /// A listening socket of the broker: the next one goes on with it, so that connections wait in it
  /// while no broker runs.
  void keep_listener(UniqueFd listener);
  /// Starts the process that serves the metrics.
  Result<void> start_exporter(Role& exporter);

  /// The folder of the programs that are started.
  const std::filesystem::path& programs() const noexcept { return libexec_; }
  /// From now on those of that folder are.
  void set_programs(std::filesystem::path folder) { libexec_ = std::move(folder); }

  /// The address by which the host is known.
  const std::string& address() const noexcept { return address_; }
  /// The broker serves this address: "any port" was a wish, and a restarted broker must come back
  /// at the same port.
  void set_served_address(const std::string& address);
  bool is_served() const noexcept { return is_served_; }

 private:
  void add_settings(RoleStart& start) const;
  void add_limits(RoleStart& start) const;
  /// What becomes of a broker or an agent when this warden dies: agent/os/warden_end.h.
  void end_with_us(RoleStart& start) const;

  const WardenOptions& options_;
  HostSite& site_;
  std::filesystem::path libexec_;
  std::optional<os::Spawner> spawner_;
  UniqueFd secret_;
  std::vector<UniqueFd> listeners_;  // of the broker
  UniqueFd agents_keeper_fd_;        // until the agent has started
  UniqueFd ledger_;                  // what one agent writes down for the next: agent/host/records
  UniqueFd spool_;
  std::vector<std::string> binds_;  // what the broker listens on besides the local socket
  std::string address_;
  bool is_served_ = false;
  std::optional<int> procs_oom_score_;  // when that of the roles is another one
};

}  // namespace meshbus::warden
