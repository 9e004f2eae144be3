#pragma once

#include "cli/run/run_job.h"
#include "cli/support/cli11_types.h"

namespace meshbus::cli {

/// What a run has as a whole: hosts, times, settings, output.
void add_job_options(CLI::App& verb, RunArguments& run);

}  // namespace meshbus::cli
