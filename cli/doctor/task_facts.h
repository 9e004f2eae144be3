#pragma once

#include <optional>

#include "cli/doctor/host_facts.h"

namespace meshbus::cli::doctor {

/// How many processes and threads this process and its user may have: the limit that leaves the
/// fewest. Nothing: none is known.
std::optional<TaskFacts> gather_tasks();

}  // namespace meshbus::cli::doctor
