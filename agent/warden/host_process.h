#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

#include "agent/os/limit_places.h"
#include "agent/os/spawner.h"
#include "agent/warden/restart_budget.h"
#include "agent/warden/role.h"
#include "agent/warden/run_dir.h"
#include "agent/warden/warden.h"
#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::warden {

/// The warden at work: starts the three roles, hears how each of them ends, and ends the host so that nothing is left. One thread;
/// every wait has a deadline.
class HostProcess {
 public:
  explicit HostProcess(const WardenOptions& options);
  /// Until the host has ended. Returns the process exit code.
  int run();

 private:
  using Clock = std::chrono::steady_clock;
  /// The way down is always the same; each step is left out when its process is dead.
  enum class Phase { starting, running, stopping_agent, sweeping, ending_agent, ending_broker, ended };

  struct StartFailure {
    int exit_code;
    std::string why;
  };
  tl::expected<void, StartFailure> set_up();
  void note_strangers();
  tl::expected<void, StartFailure> choose_containment();
  Result<void> start_keeper();
  Result<void> start_broker();
  Result<void> start_agent();
  Result<void> limit_pids();
  /// Where limits of this host may have cgroups, beside the one of the containment.
  std::vector<std::string> limit_directories() const;
  std::string containment() const;
  /// Of the event log, without the endings of its files.
  std::string events_path() const;
  void add_settings(RoleStart& start) const;
  void add_limits(RoleStart& start) const;
  /// What becomes of a broker or an agent when we die: agent/os/warden_end.h.
  void end_with_us(RoleStart& start) const;

  void turn();
  void on_signals();
  void on_launcher();
  void on_lifeline(Role& role);
  void on_message(Role& role, std::string_view text);
  void on_ready();
  void reap_children();
  void on_exit(Role& role, const std::string& how);
  void on_broker_lost(const std::string& how);
  void on_agent_lost(const std::string& how);
  Result<void> restart_agent();
  bool may_restart(const Role& role, RestartBudget& budget, bool is_wanted, const std::string& how) const;
  void on_deadline();
  void look_for_frozen();
  void act_on(Silence silence, Role& role);

  void enter(Phase phase);
  void ask(Role& role, const std::string& message, std::chrono::milliseconds limit, Phase next);
  void end(int exit_code, std::chrono::milliseconds grace);
  void fail_start(int exit_code, const std::string& why);
  void sweep_ourselves();
  int finish();
  void say(const std::string& line) const;
  /// The same, and writes it into the host's event log.
  void note(const std::string& line) const;
  void report(const std::string& line);

  const WardenOptions& options_;
  std::filesystem::path libexec_;
  std::optional<os::Spawner> spawner_;
  std::optional<HostDir> directory_;
  std::string cgroup_;
  bool pid_namespace_ = false;
  std::string containment_reason_;  // of what automatic chose
  os::HostPlace place_;
  os::LimitPlaces limits_;
  std::string pids_reason_;  // why there is no limit
  std::uint64_t pids_limit_ = 0;
  UniqueFd pids_join_;  // until the keeper is there
  std::uint64_t mark_ = 0;
  UniqueFd secret_;
  UniqueFd agents_keeper_fd_;  // kept until the agent starts
  UniqueFd ledger_;            // what one agent writes down for the next: see agent/host/records
  UniqueFd spool_;
  UniqueFd signals_;
  UniqueFd ready_fd_;
  UniqueFd launcher_;
  std::set<pid_t> strangers_;  // children that this process had before it became a warden
  Role keeper_{"keeper", -1, {}, false, {}, {}};
  Role broker_{"broker", -1, {}, false, {}, {}};
  Role agent_{"agent", -1, {}, false, {}, {}};
  std::string local_;               // the broker's unix socket, for everybody on this machine
  std::vector<std::string> binds_;  // what the broker listens on besides
  std::string address_;

  Phase phase_ = Phase::starting;
  std::optional<Clock::time_point> deadline_;
  std::optional<Clock::time_point> look_due_;  // while running
  Role* waited_for_ = nullptr;                 // whom the deadline is about
  bool killed_waited_for_ = false;
  std::chrono::milliseconds grace_{0};
  RestartBudget broker_restarts_;
  RestartBudget agent_restarts_;
  int exit_code_ = 0;
  bool swept_ = false;
};

}  // namespace meshbus::warden
