#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "meshbus/events.h"
#include "meshbus/host_mesh.h"
#include "meshbus/rank_report.h"

/// Reports as JSON: every command, and every view of a site, has the same fields.
namespace meshbus::reports {

nlohmann::ordered_json rank_json(const RankReport& rank);
nlohmann::ordered_json drains_json(const std::vector<DrainReport>& drains);
nlohmann::ordered_json event_json(const HostEvent& event);
/// RFC 3339, UTC, microseconds.
std::string time_text(std::chrono::system_clock::time_point time);
/// As text; bytes that are not UTF-8 become U+FFFD.
std::string dump(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace meshbus::reports
