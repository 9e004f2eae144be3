#pragma once

#include <optional>
#include <string>

#include "cli/doctor/host_facts.h"
#include "meshbus/address.h"

namespace meshbus::cli::doctor {

/// Looks at this machine with the eyes of this process: its limits, its user and its environment
/// count. `host`: the host that it belongs to, when it runs on one. Takes some seconds at most.
HostFacts gather_facts(const std::optional<HostAddr>& host);

}  // namespace meshbus::cli::doctor
