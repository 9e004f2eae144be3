#pragma once

#include <optional>

#include "meshbus/result.h"
#include "wire/lifecycle_generated.h"

namespace meshbus::host {

/// The restart policy of a request, checked: this agent keeps it, and hands it to every owner that
/// asks. Of times of restarts it keeps the latest. Nothing: the request has none. Errors:
/// out_of_range, too_large, naming the field.
Result<std::optional<wire::RestartPlanT>> parse_restart_plan(const wire::RestartPlan* plan);

}  // namespace meshbus::host
