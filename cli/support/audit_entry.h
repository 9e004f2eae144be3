#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshbus::cli {

/// An entry of an audit trail, as a host wrote it down. A plain value.
struct AuditEntry {
  /// Nothing when that line is none.
  static std::optional<AuditEntry> parse(std::string_view line);
  /// Empty when the field is missing or null.
  std::string text(const std::string& field) const;

  /// Line of JSON.
  std::string line;
  std::map<std::string, std::string> fields = {};
};

/// The entries of audit trails that are shown. Pure.
struct AuditFilter {
  bool takes(const AuditEntry& entry) const;
  /// Whether it is not too old.
  bool reaches(const AuditEntry& entry) const;

  /// Not before this time.
  std::optional<std::chrono::system_clock::time_point> since = {};
  /// Part of the principal, its address on the machine or its address on the bus; empty: all.
  std::string by = {};
  /// Its whole name, or its base; empty: all.
  std::string mesh = {};
  /// Its verb is one of these; empty: all.
  std::vector<std::string> verbs = {};
};

}  // namespace meshbus::cli
