#pragma once

#include <string>
#include <string_view>

#include "meshbus/restart_policy.h"
#include "meshbus/result.h"

namespace meshbus::cli {

/// "never", "on-failure", "on-failure:3", "always:3": into `on` and `budget`. Errors: parse_error.
Result<void> parse_restart(std::string_view text, RestartPolicy& policy);
/// "one", "all", "rest". Errors: parse_error.
Result<Gang> parse_gang(std::string_view text);
/// "2s", "100ms:1m": the first delay and the longest one. Errors: parse_error.
Result<void> parse_restart_delay(std::string_view text, RestartPolicy& policy);
/// "75,137". Errors: parse_error.
Result<std::vector<int>> parse_codes(std::string_view text);

/// "rank 1 (host=0,proc=1 on unix:/run/m/broker): exit 3; it is started anew in 1.2 s (restart 1 of
/// 3)"
std::string words_of(const RestartReport& restart);

}  // namespace meshbus::cli
