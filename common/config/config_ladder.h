#pragma once

#include "common/config/config.h"

namespace meshbus {

/// The part that is nearer to a cause must give up first, because it can report what happened (spec
/// 8.8). Errors: configuration_error that names both settings, where they come from, what would go
/// wrong and which to change.
Result<void> check_ladder(const Config& config);

}  // namespace meshbus
