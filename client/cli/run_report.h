#pragma once

#include <string>

#include "meshbus/proc_mesh.h"

namespace meshbus::cli {

/// The last words of a run on stderr: which rank failed first, where, how, its last lines; and how many others did what. Empty when none
/// failed.
std::string last_words(const MeshOutcome& outcome);

/// The report of `run --json`: {mesh, region, ranks: [{rank, host, point, pid, status, exit_code, signal, started, ended, reason, stop,
/// stderr_tail}], first_failure, exit_code}. Times are RFC 3339, UTC; what is not there is null.
std::string json_report(const ProcMeshRef& mesh, const MeshOutcome& outcome, int exit_code);

}  // namespace meshbus::cli
