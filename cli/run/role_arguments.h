#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/run/rank_options.h"
#include "cli/support/host_list.h"
#include "meshbus/restart_policy.h"

namespace meshbus::cli {

/// One program of a job, its *role*. Large because: it has a member for each option.
struct RoleArguments {
  /// The base of its mesh's name. Empty: that of the program.
  std::string name;
  RankOptions ranks;
  /// none, auto, pmi1, pmix; empty = not said.
  std::string mpi;
  /// The ranks find what torchrun sets.
  bool torch = false;
  bool keep_going = false;
  RestartPolicy restart;
  /// Hosts of its own; empty: those of the job.
  HostsSaid said;
  /// Only those of these hosts that have these numbers; empty: all.
  RankSet on;
  /// What the two above mean, as numbers among all hosts of the job; empty: all. Written by
  /// choose_run_hosts().
  std::vector<std::uint64_t> hosts;
  /// The roles that it is started after: "store" (ready), "prepare:done" (ended with success).
  std::vector<std::string> after;
  /// The job is over when this role has ended.
  bool ends_job = false;
  /// A rank is ready when it has written a line with this text; empty: as its kind says.
  std::string ready_text;
  std::vector<std::string> command;
  /// Where it was said, for errors: "rl.toml:7: [roles.store]"; empty: on the command line.
  std::string source;
};

}  // namespace meshbus::cli
