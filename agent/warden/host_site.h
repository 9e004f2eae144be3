#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/os/cgroup_placement.h"
#include "agent/os/limit_places.h"
#include "agent/os/spawner.h"
#include "agent/warden/run_dir.h"
#include "agent/warden/start_failure.h"
#include "agent/warden/warden.h"
#include "agent/warden/warden_log.h"
#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::warden {

/// What a host owns on its machine besides its processes: the run directory, the cgroups, the tag
/// of its procs. prepare() makes it, remove() removes all of it. One thread.
class HostSite {
 public:
  /// Makes the run directory, cleans up after hosts that were killed as a whole, and chooses the
  /// containment. Call it once.
  Started prepare(const WardenOptions& options, os::Spawner& spawner, WardenLog& log);
  /// Limits the processes of the host. v1: the keeper joins the limited cgroup before it starts,
  /// so all procs are in it. v2: all procs are born in the host's cgroup.
  Result<void> limit_pids(std::uint64_t limit, bool is_needed);

  bool is_prepared() const noexcept { return !directory_.path.empty(); }
  const HostDir& directory() const noexcept { return directory_; }
  /// The event log, without the endings of its files.
  const std::string& events_path() const noexcept { return events_path_; }
  const std::string& audit_path() const noexcept { return audit_path_; }
  /// "unix:…/bus": the broker's socket for this machine.
  const std::string& socket() const noexcept { return socket_; }
  /// "unix:…/procs/bus": the broker's socket for procs of other users; empty: this host has none,
  /// because it does not run as root.
  const std::string& procs_socket() const noexcept { return procs_socket_; }
  /// The host's cgroup v2 for containment; empty: it has none.
  const std::string& cgroup() const noexcept { return cgroup_; }
  bool has_pid_namespace() const noexcept { return has_pid_namespace_; }
  /// "cgroup v2", "pid namespace" or "sweep".
  std::string containment() const;
  /// Why `automatic` chose no better containment; may be empty.
  const std::string& containment_reason() const noexcept { return containment_reason_; }
  const os::LimitPlaces& limits() const noexcept { return limits_; }
  std::uint64_t pids_limit() const noexcept { return pids_limit_; }
  /// Why there is no limit of processes although one was wanted; may be empty.
  const std::string& pids_reason() const noexcept { return pids_reason_; }
  /// What the keeper joins the limited cgroup by; empty: nothing.
  UniqueFd take_pids_join() noexcept { return std::move(pids_join_); }
  std::uint64_t process_tag() const noexcept { return process_tag_; }

  /// Kills what is in the host's cgroup; does not wait.
  void kill_contained() const;
  /// Removes everything, when all processes are dead.
  void remove(const WardenLog& log) const;

 private:
  Started choose_containment(Containment wanted, os::Spawner& spawner);
  /// Cgroups of limits, beside the one of the containment.
  std::vector<std::string> limit_directories() const;

  HostDir directory_;
  std::string events_path_;  // in the run directory, and gone with it, unless logs have their own
  std::string audit_path_;   // likewise
  std::string socket_;
  std::string procs_socket_;
  std::string cgroup_;
  bool has_pid_namespace_ = false;
  std::string containment_reason_;
  os::CgroupPlacement place_;
  os::LimitPlaces limits_;
  std::string pids_reason_;
  std::uint64_t pids_limit_ = 0;
  UniqueFd pids_join_;  // until the keeper has started
  std::uint64_t process_tag_ = 0;
};

}  // namespace meshbus::warden
