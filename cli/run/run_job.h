#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/run/role_arguments.h"
#include "cli/support/host_list.h"

namespace meshbus::cli {

/// `meshbus run`. Large because: it has a member for each option.
struct RunArguments {
  HostsSaid said;
  /// What `said` means (choose_run_hosts): hosts to start on this machine, running hosts, or one
  /// host to start on each machine of a list.
  enum class From { here, addresses, ssh, slurm } from = From::here;
  std::uint64_t hosts = 1;
  HostList list;
  /// An attempt of the job uses so many of the hosts, the others are spares; nothing = all.
  std::optional<std::uint64_t> use;
  /// The job goes on with so many hosts when there are no spares left; nothing = as many as it
  /// uses.
  std::optional<std::uint64_t> min_hosts;
  /// Wait so long for hosts that do not answer; nothing = they are left out, or an error.
  std::optional<std::chrono::milliseconds> wait_hosts;
  /// What is run: one program, or several roles. Never empty.
  std::vector<RoleArguments> roles = std::vector<RoleArguments>(1);
  /// The ranks find the other roles by name: there are several, or a job file.
  bool has_roles = false;
  std::optional<std::chrono::milliseconds> timeout;
  /// Look where the ranks are when they have stood still for so long.
  std::optional<std::chrono::milliseconds> stall_after;
  bool stall_stop = false;
  /// Examine the hosts first, and keep those that fail out of the job.
  bool preflight = false;
  bool no_prefix = false;
  /// none, all, or a rank; of the first role.
  std::string input = "0";
  std::string json;
  bool report = false;
  std::string trace;
  std::string containment;
  /// Where `meshbus` is on other machines.
  std::string remote_program;
  std::vector<std::string> settings;

  /// Whether the job is run again on other hosts when one is lost (spec 18.1).
  bool has_spares() const { return use.has_value() || min_hosts.has_value(); }
};

/// Starts a mesh for each role, shows their output, and says how they ended. It ends the meshes in
/// bounded time when a rank fails, the time is up or a signal says so. Returns the exit code of
/// spec 12.2. Call it on the main thread before any other thread exists: it takes over signals.
int run_job(const RunArguments& arguments);

}  // namespace meshbus::cli
