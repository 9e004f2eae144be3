#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace meshbus::metrics {

/// What the warden says of the roles of its host: "KEEPER BROKER AGENT BROKER_RESTARTS
/// AGENT_RESTARTS", where a role is 1 when it runs and is ready.
struct RoleReport {
  bool keeper = false;
  bool broker = false;
  bool agent = false;
  std::uint64_t broker_restarts = 0;
  std::uint64_t agent_restarts = 0;

  /// Nothing: it is no such report.
  static std::optional<RoleReport> parse(std::string_view text);
};

}  // namespace meshbus::metrics
