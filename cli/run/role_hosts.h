#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/run/run_job.h"
#include "meshbus/result.h"

namespace meshbus::cli {

/// The most hosts that a run starts on this machine.
inline constexpr std::uint64_t kMostHosts = 1024;

/// The number that a list of hosts is, "3"; nothing: it has another form. Errors:
/// configuration_error: not 1 to 1024.
Result<std::optional<std::uint64_t>> number_of_hosts(const HostList& list);

/// Adds the hosts that roles have of their own (`--hosts` of a later program) to those of the job,
/// and writes down which hosts are whose. A machine or an address that is named twice is one host;
/// hosts that are started here are others for each role. `own`: the list of each role, without
/// words: it has none. `is_said`: the job's hosts were said, and are not the one that is there by
/// default. Pure. Errors: configuration_error: hosts of different kinds; a number above the hosts
/// that there are.
Result<void> share_hosts(RunArguments& run, const std::vector<HostList>& own, bool is_said);

}  // namespace meshbus::cli
