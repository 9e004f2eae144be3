#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

#include "agent/os/lifeline.h"
#include "agent/os/spawner.h"
#include "agent/warden/role_silence.h"
#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::warden {

/// One process of a host as its warden sees it.
struct Role {
  std::string name;       ///< "broker", for people.
  pid_t pid = -1;         ///< -1: not running.
  os::Lifeline lifeline;  ///< Our end.
  bool ready = false;     ///< It said so.
  std::string said;       ///< The text of its last `ready` or `failed`.
  std::string release;    ///< As it said; empty: it did not.
  std::string program;    ///< The file that it was started from.
  RoleSilence silence;    ///< Since its last sign of life.
  bool alive() const noexcept { return pid > 0; }
};

/// How to start one.
struct RoleStart {
  std::filesystem::path program;
  std::vector<std::string> arguments;  ///< Behind the program name and --lifeline-fd N.
  std::vector<int> inherit;            ///< Descriptors that keep their number in it.
  std::vector<int> joins;              ///< Cgroups v1 that it joins first: os::join_file_v1().
  int death_signal = 0;                ///< Sent to it when we die; 0: none.
  bool new_pid_namespace = false;      ///< It becomes process 1 of one.

  void add(std::vector<std::string> more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
  }
};

/// Starts a role: own session (so that a terminal's Ctrl-C reaches only the warden), stdin from
/// /dev/null, stdout and stderr to our stderr, our environment, a fresh lifeline. Errors:
/// exec_failed, io_error.
Result<void> start_role(Role& role, const RoleStart& start, os::Spawner& spawner);

/// "was killed by SIGKILL", "exited with code 3", from what waitid said.
std::string describe_exit(int code, int status);

/// A sealed memory file of 32 random bytes: the secret of this host's tokens. Errors: io_error.
Result<UniqueFd> make_secret();

}  // namespace meshbus::warden
