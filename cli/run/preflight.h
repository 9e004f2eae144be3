#pragma once

#include <vector>

#include "cli/run/job_hosts.h"
#include "cli/run/run_job.h"
#include "meshbus/client.h"

namespace meshbus::cli {

/// `run --preflight`: examines the hosts of a run as `meshbus doctor` does, and says on stderr what
/// it finds. Running hosts are examined before they are attached to, all others when they have
/// been started. Returns the hosts with an error; this machine, whose clock may be wrong, runs no
/// ranks. Errors: those of parse_hosts().
Result<std::vector<HostAddr>> preflight(const RunArguments& arguments, JobHosts& hosts);

}  // namespace meshbus::cli
