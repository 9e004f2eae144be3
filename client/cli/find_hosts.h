#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "client/cli/command_line.h"
#include "meshbus/client.h"

namespace meshbus::cli {

/// A host of this user on this machine.
struct LocalHost {
  /// By which it is known, to itself too.
  HostAddr address;
  /// By which it is reached, without keys.
  HostAddr socket;
};
std::vector<LocalHost> local_hosts();

/// Hosts that are meant, and how to come to them.
struct FoundHosts {
  std::vector<HostAddr> addresses;
  /// Where they were named; empty: nowhere, these are the hosts of this machine.
  std::string source;
  /// Of the context that names them.
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<LocalHost> local;

  /// A place on the bus to look for them from. Errors: configuration_error, io_error.
  Result<Context> make_context() const;
};
/// The hosts that are meant: see choose_hosts(); else every host of this user on this machine. Or, when there is nothing to go on with (it
/// has been said on stderr), the exit code.
std::variant<FoundHosts, int> find_hosts(const HostsArguments& arguments);

struct AttachedHosts {
  Context context;
  HostMesh hosts;
  std::chrono::milliseconds took;
};
/// The same, attached to.
std::variant<AttachedHosts, int> attach_hosts(const HostsArguments& arguments);

}  // namespace meshbus::cli
