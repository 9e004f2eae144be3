#pragma once

#include <chrono>
#include <optional>

#include "cli/run/hang_watch.h"
#include "cli/run/job_hosts.h"
#include "cli/run/job_signals.h"
#include "cli/run/run_job.h"

namespace meshbus::cli {

/// What the attempts of a run have in common.
struct Run {
  const RunArguments& arguments;
  JobSignals signals;
  JobHosts hosts;
  /// The end of --timeout, which counts for all attempts together.
  std::optional<std::chrono::steady_clock::time_point> timeout_at;
  HangWatch hang = {};
};

}  // namespace meshbus::cli
