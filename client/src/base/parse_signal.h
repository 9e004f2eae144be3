#pragma once

#include <string>

#include "meshbus/result.h"

namespace meshbus {

/// "USR1", "SIGUSR1", "10". Errors: parse_error.
Result<int> parse_signal(const std::string& text);

}  // namespace meshbus
