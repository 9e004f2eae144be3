#pragma once

#include "cli/tap/tap_command.h"
#include "common/wire/tap_filter.h"

namespace meshbus::cli {

/// `meshbus tap --replay FILE --into ADDRESS`: sends what was recorded again, to the procs of the
/// same names at that host. Returns the exit code: 0; 1 when something could not be read or
/// reached; 130, 143 after a signal.
int replay_tap(const TapArguments& arguments, const TapFilter& filter);

}  // namespace meshbus::cli
