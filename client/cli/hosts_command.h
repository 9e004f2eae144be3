#pragma once

#include <string>
#include <variant>
#include <vector>

#include "client/cli/command_line.h"
#include "meshbus/client.h"

namespace meshbus::cli {

struct AttachedHosts {
  Context context;
  HostMesh hosts;
};
/// The hosts that are meant: those named, else MESHBUS_HOSTS, else every host of this user on this machine. Or, when there is nothing to go
/// on with (it has been said on stderr), the exit code.
std::variant<std::vector<HostAddr>, int> find_hosts(const HostsArguments& arguments);
/// The same, attached to.
std::variant<AttachedHosts, int> attach_hosts(const HostsArguments& arguments);

/// The broker sockets of this user's hosts on this machine, as addresses.
std::vector<std::string> local_hosts();

/// The meshes that somebody who typed `word` means: that very one, or all of that base. Valid as long as the listing.
std::vector<const MeshReport*> matching(const MeshListing& listing, const std::string& word);

/// `meshbus ps`, `ping`, `status`, `stop`, `drain` and `shutdown`. Returns the exit code: 0, 1 when something could not be done or reached,
/// 2 for wrong usage.
int hosts_command(const HostsArguments& arguments);

}  // namespace meshbus::cli
