#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "meshbus/rank_report.h"

namespace meshbus::cli {

/// One rank as every verb prints it with --json.
nlohmann::ordered_json rank_json(const RankReport& rank);
/// RFC 3339, UTC, microseconds.
std::string time_text(std::chrono::system_clock::time_point time);
/// As text; bytes that are not UTF-8 become U+FFFD.
std::string dump(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace meshbus::cli
