#pragma once

#include <string>

#include "cli/support/cli11_types.h"
#include "cli/support/command.h"

namespace meshbus::cli {

struct UpgradeArguments {
  /// A broker and an agent that are not ready in time, and those of before, take 30 s together.
  HostChoice hosts = {.timeout = std::chrono::seconds(60)};
  /// A folder on the hosts; empty: where their programs are now.
  std::string programs;
};
/// Upgrades the hosts one after the other. Returns the exit code.
int upgrade_hosts(const UpgradeArguments& arguments);

/// --upgrade and --programs, for the command that starts hosts: then it does this instead. Call it
/// last: no other option goes with them.
void add_upgrade_flags(CLI::App& verb, bool& is_upgrade, UpgradeArguments& arguments);

/// `meshbus upgrade`
void add_upgrade(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
