#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string_view>

#include "cli/doctor/host_facts.h"
#include "meshbus/result.h"

namespace meshbus::cli::doctor {

/// As probes send them, and as --json shows them: share/schemas/doctor.json.
nlohmann::ordered_json facts_json(const HostFacts& facts);
/// Errors: malformed_message.
Result<HostFacts> parse_facts(std::string_view text);

}  // namespace meshbus::cli::doctor
