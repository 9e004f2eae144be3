#pragma once

#include "common/config/config.h"

namespace meshbus {

/// Whoever is nearer to a cause is to say what happened, so it has to give up first (spec 8.8). Errors: configuration_error that names both
/// settings, where they come from, what would go wrong and which to change.
Result<void> check_ladder(const Config& config);

}  // namespace meshbus
