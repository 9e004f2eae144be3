#include "cli/support/upgrade_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace meshbus::cli {
namespace {

using Outcome = HostUpgradeReport::Outcome;

nlohmann::ordered_json known_or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

}  // namespace

const char* outcome_word(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::running: return "running";
    case Outcome::done: return "done";
    case Outcome::rolled_back: return "rolled_back";
    case Outcome::failed: return "failed";
    case Outcome::unknown: break;
  }
  return "unknown";
}

std::string releases_text(const std::vector<HostRoleReport>& roles) {
  // In the order in which they first come.
  std::vector<std::pair<std::string, std::vector<std::string>>> releases;
  for (const auto& role : roles) {
    const std::string release = role.release.empty() ? "unknown" : role.release;
    auto found = std::find_if(releases.begin(), releases.end(),
                              [&](const auto& one) { return one.first == release; });
    if (found == releases.end()) found = releases.insert(found, {release, {}});
    found->second.push_back(role.role);
  }
  if (releases.size() == 1) return releases.front().first;
  std::string text;
  for (const auto& [release, names] : releases) {
    text += text.empty() ? "" : ", ";
    for (std::size_t i = 0; i < names.size(); ++i)
      text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
    text += " " + release;
  }
  return text;
}

std::vector<std::string> upgrade_lines(const HostReport& host) {
  std::vector<std::string> lines;
  const bool is_mixed = std::any_of(host.roles.begin(), host.roles.end(), [&](const auto& role) {
    return role.release != host.roles.front().release;
  });
  if (is_mixed) lines.push_back("releases: " + releases_text(host.roles));
  if (!host.upgrade || host.upgrade->outcome == Outcome::done) return lines;
  const std::string what = "upgrade to " + host.upgrade->programs;
  const std::string& detail = host.upgrade->detail;
  switch (host.upgrade->outcome) {
    case Outcome::running: lines.push_back(what + " is under way: " + detail); break;
    case Outcome::rolled_back: lines.push_back(what + " was rolled back: " + detail); break;
    default: lines.push_back(what + " failed: " + detail);
  }
  return lines;
}

nlohmann::ordered_json roles_json(const std::vector<HostRoleReport>& roles) {
  auto json = nlohmann::ordered_json::array();
  for (const auto& role : roles)
    json.push_back({{"role", role.role},
                    {"pid", role.pid},
                    {"release", known_or_null(role.release)},
                    {"program", known_or_null(role.program)}});
  return json;
}

nlohmann::ordered_json upgrade_json(const HostUpgradeReport& upgrade) {
  return {{"number", upgrade.number},
          {"outcome", outcome_word(upgrade.outcome)},
          {"programs", upgrade.programs},
          {"by", known_or_null(upgrade.requester)},
          {"detail", upgrade.detail}};
}

}  // namespace meshbus::cli
