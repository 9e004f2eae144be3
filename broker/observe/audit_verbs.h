#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/control.h"
#include "wire/codes_generated.h"

namespace meshbus {

/// A request that changes something, or looks into the memory of ranks, as the audit trail names
/// it. A plain value.
struct AuditedRequest {
  /// "spawn", "stop", "signal", "stacks", "exec", "drain", "resume", "shutdown", "hand over", ...
  std::string verb;
  /// With its uuid; empty: none.
  std::string mesh = {};
  /// None: all.
  std::vector<wire::RankInterval> ranks = {};
  /// The command, or the reason.
  std::string what = {};
  /// The address that the requester gives itself; empty: none.
  std::string claimed_peer = {};
  /// The number of the exec that it begins; its end becomes a line, too. 0: none.
  std::uint64_t exec = 0;
};

/// What that request asks for; nothing when it only reads, or goes with every job that runs (input,
/// leases, heartbeats). Pure.
std::optional<AuditedRequest> audited_request(const ControlMessage& message);

/// What goes with every job, and is worth a line only when a requester asks for it without the
/// right to do so. Pure.
std::optional<AuditedRequest> attempted_request(const ControlMessage& message);

}  // namespace meshbus
