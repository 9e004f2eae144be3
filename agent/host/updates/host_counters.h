#pragma once

#include <cstdint>

#include "agent/host/model/proc_table.h"
#include "wire/lifecycle_generated.h"

namespace meshbus::host {

/// The counts of the host, and how its ranks are now. Looks at every rank.
wire::HostCountersT make_host_counters(const ProcTable& table, std::uint64_t long_turns);

}  // namespace meshbus::host
