#pragma once

#include "meshbus/result.h"

namespace meshbus::os {

/// For process 1 of a new pid namespace: a /proc of that namespace, seen by us and by everything
/// below us alone. What is mounted outside later is still seen. Errors: io_error with the reason.
Result<void> settle_in_pid_namespace();

}  // namespace meshbus::os
