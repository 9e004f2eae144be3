#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/support/cli11_types.h"
#include "meshbus/extent.h"
#include "meshbus/proc_mesh.h"
#include "meshbus/restart_policy.h"

namespace meshbus::cli {

/// The ranks to start: what `run` and `spawn` have in common.
struct RankOptions {
  /// -n: ranks in all, spread in blocks.
  std::optional<std::uint64_t> total = {};
  std::optional<Extent> per_host = {};
  bool mesh = false;
  std::uint32_t procs_per_process = 1;
  /// -x NAME (with our value) or NAME=VALUE.
  std::vector<std::pair<std::string, std::string>> environment = {};
  /// --program-set NAME=VALUE
  std::vector<std::pair<std::string, std::string>> program_settings = {};
  /// --nice, --umask, --uid, --gid, --no-new-privs, --cpu-set, --memory, --cpus, --pids, --rlimit
  ProcSettings settings = {};
  std::optional<std::chrono::milliseconds> grace = {};
  /// --bind, --bind-memory, --visible-devices
  Binding binding = {};
  /// --display-map
  bool shows_map = false;

  ProcSpec make_spec(const std::vector<std::string>& command) const;
};

/// Whether an environment variable can have this name: letters, digits and _, no digit in front.
bool is_variable_name(std::string_view name);

/// Why this many ranks do not fit on this many hosts; empty when they do.
std::string size_problem(const RankOptions& options, std::uint64_t hosts);

void add_rank_options(CLI::App& verb, RankOptions& options);
/// -x, which add_rank_options() has, too.
void add_environment(CLI::App& verb, RankOptions& options);
/// --restart and what belongs to it.
void add_restart(CLI::App& verb, RestartPolicy& policy);

}  // namespace meshbus::cli
