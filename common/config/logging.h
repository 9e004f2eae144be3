#pragma once

#include <string_view>

#include "common/base/log.h"

namespace meshbus {

/// Makes spdlog the sink of the log front: lines of `level` and above go to stderr as
/// `2026-01-02T03:04:05.678Z broker[123] warn: text` (UTC). `role` is what people call this
/// process: "broker", "agent". Logging never blocks: while nobody reads stderr, lines are left out,
/// and the next one that gets through says how many. Call it in main(), after the forks that a role
/// makes at its start; again to change the level.
void set_up_logging(std::string_view role, log::Level level);

}  // namespace meshbus
