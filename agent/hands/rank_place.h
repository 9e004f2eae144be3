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
/// must have one thread, moves there. It gets no more rights than the process has; one that runs a
/// program with the rights of another user (setuid), or under filters of its own, is refused.
class RankPlace {
 public:
  struct Target {
    pid_t pid = 0;
    /// Field 22 of /proc/PID/stat: tells the process from a later one with the same number.
    std::uint64_t start_ticks = 0;
  };

  /// Errors: not_exist (the process has ended), unauthorised (this process may not look at it),
  /// refused (its place is not taken: see above), io_error.
  static Result<RankPlace> open(const Target& target);

  /// Joins cgroups and namespaces, and goes to its root and working directory. Errors: io_error,
  /// which says what could not be joined.
  Result<void> enter();
  /// Takes limits, priority and CPUs, then the user; see become_user(). The last thing before the
  /// command. Errors: io_error.
  Result<void> settle() const;
  /// Takes user, umask and what of capabilities the process has; ties this process to its parent
  /// again. Errors: io_error.
  Result<void> become_user() const;

  /// "NAME=VALUE"; as the process was started with.
  const std::vector<std::string>& environment() const noexcept { return environment_; }
  uid_t user() const noexcept { return user_.users[0]; }

 private:
  struct Namespace {
    const char* name = nullptr;
    int type = 0;
    UniqueFd fd;
  };

  /// What it is at one moment.
  struct Look {
    std::uint64_t start_ticks = 0;
    ProcessUser user;
    bool is_secure = false;

    bool operator==(const Look&) const = default;
  };

  Result<Look> look() const;
  Result<void> open_namespaces();
  Result<void> read_environment();
  Result<void> read_limits(pid_t pid);
  Result<void> read_user_inside();
  bool joins_user_namespace() const;
  Result<void> take_groups() const;
  Result<void> join_namespaces();
  Result<void> join_cgroups() const;
  Result<void> go_to_directories() const;

  UniqueFd proc_;    ///< /proc/PID
  UniqueFd status_;  ///< Its status with the numbers of users that are valid here.
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
