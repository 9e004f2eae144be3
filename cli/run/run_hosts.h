#pragma once

#include <optional>

#include "cli/run/run_job.h"

namespace meshbus::cli {

/// Decides which hosts a run has, and writes it into `arguments`. When that cannot be (it has been
/// said on stderr): the exit code.
std::optional<int> choose_run_hosts(RunArguments& arguments);

}  // namespace meshbus::cli
