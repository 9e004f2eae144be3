#pragma once

#include <chrono>

#include "meshbus/proc_mesh.h"
#include "meshbus/result.h"
#include "meshbus/status_wait.h"

namespace meshbus {

/// What every wait for statuses has in common, of a launcher's own mesh or of another one's.
StatusWait::Limits limits_of(const WaitOptions& options);
/// Errors: out_of_range for a status that nothing reaches.
Result<void> check_minimum(Status::Kind minimum);
/// Whether nothing more is to be waited for.
bool is_settled(const StatusWait& wait, std::chrono::steady_clock::time_point now);

}  // namespace meshbus
