#pragma once

#include <string_view>

#include "meshbus/rank_report.h"
#include "meshbus/result.h"

namespace meshbus {

/// "0-5,7". Errors: parse_error.
Result<RankSet> parse_ranks(std::string_view text);

}  // namespace meshbus
