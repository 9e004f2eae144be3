#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/run/job_hosts.h"
#include "meshbus/proc_mesh.h"

namespace meshbus::cli {

/// In why a run stops the other ranks when somebody else has stopped one.
inline constexpr const char* kStoppedElsewhere = ", not by this run";

/// How one role of a run has ended.
struct RoleOutcome {
  /// Empty: it is the only one.
  std::string name;
  /// Nothing: it was not started, and the rest is empty.
  std::optional<ProcMeshRef> mesh = {};
  MeshOutcome ranks = {};
  BindingMap bindings = {};
  /// The job was stopped because of a failure, of this role or of another one; and one of this role
  /// is a reason to stop the job, not left to a restart or to --keep-going.
  bool ends_job = false;
};

/// A rank of a role.
struct RoleFailure {
  const RoleOutcome* role;
  const RankReport* report;
};
/// The first failure of the role because of which the job was stopped; without one, the rank of all
/// roles that failed first, by the clocks of the hosts; among ends within 50 ms, whose order is
/// unknown, that of the role that stands first. The pointers are into `roles`.
std::optional<RoleFailure> first_failure(const std::vector<RoleOutcome>& roles);
/// "rank 1 (host=0 on unix:/run/m/broker): exit 3", with the role in front if there are several.
std::string words_of(const RoleFailure& failure);

/// The last words of a run on stderr: which rank failed first, where, how, its last lines; and how
/// many others did what. Empty when none failed. `is_stopped_elsewhere`: not the run has stopped
/// them.
std::string last_words(const std::vector<RoleOutcome>& roles, bool is_stopped_elsewhere = false);

/// What may have been meant by a command that was not found; empty: no idea. Looks for files.
std::string not_found_hint(const std::vector<std::string>& command);

/// The report of `run --json`: {mesh, region, ranks: [{rank, host, point, pid, status, exit_code,
/// signal, started, ended, reason, cause, consequence, because, stop, stderr_tail}], first_failure,
/// exit_code, attempts: [{mesh, lost_hosts, drained_hosts, reason}], binding, stacks}; `attempts`:
/// those before this one. Times are RFC 3339, UTC; what is not there is null. `binding`: see
/// rank_map_json(); `stacks`: see JobStacks::json().
std::string json_report(const RoleOutcome& role, int exit_code,
                        const std::vector<FormerAttempt>& attempts,
                        const nlohmann::ordered_json& stacks);
/// The same for a job of several roles: {roles: [{role, mesh, region, ranks, former_lives,
/// first_failure, binding}], first_failure: {role, rank}, exit_code, stacks}. A role that was not
/// started has no mesh: null.
std::string json_report(const std::vector<RoleOutcome>& roles, int exit_code,
                        const nlohmann::ordered_json& stacks);
/// The same for a run that did not come to have ranks, with `error` in words.
std::string json_report(const Error& error, int exit_code);

/// Which of these ranks, of hosts that do not answer, were not stopped.
std::string words_of_silence(const std::vector<RankReport>& silent);
/// Why a run leaves without the ends of these ranks: those of state unknown are on silent hosts.
/// `may_live_on`: their hosts do not end with the run.
std::string words_of_left(const std::vector<RankReport>& left, bool may_live_on);

/// Which ranks were stopped, by whom and why; empty when none was.
std::string words_of_a_stop(const std::vector<RoleOutcome>& roles);

}  // namespace meshbus::cli
