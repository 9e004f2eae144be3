#pragma once

#include <string>
#include <vector>

#include "cli/support/command.h"

namespace meshbus::cli {

/// `meshbus config`
struct ConfigArguments {
  std::vector<std::string> settings;
  /// For live procs instead: which ones (selector.h), and what to change there, KEY=VALUE.
  std::string ranks;
  std::vector<std::string> changes;
  HostChoice hosts{.timeout = std::chrono::seconds(10)};
};

/// `meshbus config RANKS`: the settings of live mesh procs, after the changes. Returns the exit
/// code: 0; 1 when a rank did not answer, or refused; 2 for wrong usage.
int proc_config(const ConfigArguments& arguments);

}  // namespace meshbus::cli
