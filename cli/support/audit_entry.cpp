#include "cli/support/audit_entry.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/security/key_grant.h"

namespace meshbus::cli {

std::optional<AuditEntry> AuditEntry::parse(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  AuditEntry entry{std::string(line)};
  for (const auto& [name, value] : json.items()) {
    if (!value.is_null())
      entry.fields[name] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  if (entry.text("time").empty() || entry.text("verb").empty()) return std::nullopt;
  return entry;
}

std::string AuditEntry::text(const std::string& field) const {
  const auto found = fields.find(field);
  return found == fields.end() ? std::string() : found->second;
}

bool AuditFilter::reaches(const AuditEntry& entry) const {
  if (!since) return true;
  const std::string time = entry.text("time");
  const auto parsed = parse_rfc3339(time.substr(0, time.find('.')) + "Z");
  return parsed && std::chrono::system_clock::from_time_t(*parsed + 1) > *since;
}

bool AuditFilter::takes(const AuditEntry& entry) const {
  if (!reaches(entry)) return false;
  const auto has = [&](const char* field) {
    return entry.text(field).find(by) != std::string::npos;
  };
  if (!by.empty() && !has("by") && !has("address") && !has("peer")) return false;
  if (!verbs.empty() && std::find(verbs.begin(), verbs.end(), entry.text("verb")) == verbs.end())
    return false;
  const std::string name = entry.text("mesh");
  return mesh.empty() || name == mesh || name.substr(0, name.rfind('-')) == mesh;
}

}  // namespace meshbus::cli
