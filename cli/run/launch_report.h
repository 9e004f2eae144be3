#pragma once

#include <string>

#include "meshbus/proc_mesh.h"

namespace meshbus::cli {

/// `run --report`: how long the stages of the launch took (50th and 99th percentile, longest) and
/// the slowest ranks, for people.
std::string launch_report(const ProcMeshRef& mesh, const MeshOutcome& outcome);

/// `run --trace`: the same as Chrome's trace events, for Perfetto (ui.perfetto.dev) or
/// chrome://tracing: a process per host, a thread per rank, a slice per stage and one for its life.
/// Times are µs from the first request on, by the clocks of the hosts.
std::string launch_trace(const ProcMeshRef& mesh, const MeshOutcome& outcome);

}  // namespace meshbus::cli
