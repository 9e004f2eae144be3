#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "meshbus/host_mesh.h"

namespace meshbus::cli {

/// "done", "rolled_back"
const char* outcome_word(HostUpgradeReport::Outcome outcome) noexcept;

/// "warden and keeper 0.1.0, broker and agent 0.2.0"; of one release: "0.1.0". Empty: none is
/// known.
std::string releases_text(const std::vector<HostRoleReport>& roles);

/// What people have to know of the releases of a host: that they are mixed, that its last upgrade
/// was not done. Mostly nothing.
std::vector<std::string> upgrade_lines(const HostReport& host);

nlohmann::ordered_json roles_json(const std::vector<HostRoleReport>& roles);
nlohmann::ordered_json upgrade_json(const HostUpgradeReport& upgrade);

}  // namespace meshbus::cli
