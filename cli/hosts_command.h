#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/find_hosts.h"
#include "meshbus/client.h"

namespace meshbus::cli {

/// The meshes that somebody who typed `word` means: that very one, or all of that base. Valid as long as the listing.
std::vector<const MeshReport*> matching(const MeshListing& listing, const std::string& word);

/// `meshbus ps`, `ping`, `status`, `stop`, `drain` and `shutdown`. Returns the exit code: 0, 1 when something could not be done or reached,
/// 2 for wrong usage.
int hosts_command(const HostsArguments& said);

}  // namespace meshbus::cli
