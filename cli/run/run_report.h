#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/run/job_hosts.h"
#include "meshbus/proc_mesh.h"

namespace meshbus::cli {

/// The last words of a run on stderr: which rank failed first, where, how, its last lines; and how
/// many others did what. Empty when none failed.
std::string last_words(const MeshOutcome& outcome);

/// The report of `run --json`: {mesh, region, ranks: [{rank, host, point, pid, status, exit_code,
/// signal, started, ended, reason, cause, consequence, because, stop, stderr_tail}], first_failure,
/// exit_code, attempts: [{mesh, lost_hosts, reason}], binding, stacks}; `attempts`: those before
/// this one. Times are RFC 3339, UTC; what is not there is null. `binding`: see rank_map_json();
/// `stacks`: see JobStacks::json().
std::string json_report(const ProcMeshRef& mesh, const MeshOutcome& outcome, int exit_code,
                        const std::vector<FormerAttempt>& attempts, const BindingMap& bindings,
                        const nlohmann::ordered_json& stacks);
/// The same for a run that did not come to have ranks, with `error` in words.
std::string json_report(const Error& error, int exit_code);

/// Which of these ranks, of hosts that do not answer, were not stopped.
std::string words_of_silence(const std::vector<RankReport>& silent);
/// Why a run leaves without the ends of these ranks: those of state unknown are on silent hosts.
/// `may_live_on`: their hosts do not end with the run.
std::string words_of_left(const std::vector<RankReport>& left, bool may_live_on);

/// Which ranks were stopped, by whom and why; empty when none was.
std::string words_of_a_stop(const MeshOutcome& outcome);

}  // namespace meshbus::cli
