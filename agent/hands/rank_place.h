#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/hands/process_texts.h"
#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::hands {

/// The place of a running process on this machine: its cgroups, namespaces, root and working
/// directory, environment, limits, user. Opened while the process lives; then this process, which
/// must have one thread, moves there. What it does not take over: capabilities and filters that the
/// process has put on itself.
class RankPlace {
 public:
  struct Target {
    pid_t pid = 0;
    /// Field 22 of /proc/PID/stat: tells the process from a later one with the same number.
    std::uint64_t start_ticks = 0;
  };

  /// Errors: not_exist (the process has ended), unauthorised (this process may not look at it),
  /// io_error.
  static Result<RankPlace> open(const Target& target);

  /// Joins cgroups and namespaces, and goes to its root and working directory. Errors: io_error,
  /// which says what could not be joined.
  Result<void> enter();
  /// Takes limits, priority and CPUs, then user, groups and umask. The last thing before the
  /// command; ties this process to its parent again. Errors: io_error.
  Result<void> become_user() const;

  /// "NAME=VALUE"; as the process was started with.
  const std::vector<std::string>& environment() const noexcept { return environment_; }
  uid_t user() const noexcept { return user_.users[1]; }

 private:
  struct Namespace {
    const char* name = nullptr;
    int type = 0;
    UniqueFd fd;
  };

  Result<void> open_namespaces();
  Result<void> read_user();
  Result<void> join_cgroups() const;
  Result<void> go_to_directories() const;

  UniqueFd proc_;  ///< /proc/PID
  std::vector<Namespace> namespaces_;
  UniqueFd root_;
  UniqueFd directory_;
  std::string cgroups_;
  std::vector<std::string> environment_;
  std::vector<ProcessLimit> limits_;
  std::optional<int> nice_;
  bool has_cpus_ = false;
  cpu_set_t cpus_{};
  ProcessUser user_;
};

}  // namespace meshbus::hands
