#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/support/cli11_types.h"

namespace meshbus::cli {

class Commands;
/// `meshbus tap`
struct TapArguments {
  /// Empty: the only one of this user on this machine.
  std::string host;
  std::string filter;
  /// Bytes to copy of each body.
  std::uint32_t bodies = 0;
  std::optional<std::uint64_t> count;
  /// Files to write to, to show, to send again; empty: none.
  std::string write;
  std::string read;
  std::string replay;
  /// replay: the address of a host.
  std::string into;
  /// replay: how many times as fast as it was; 0 = at once.
  double speed = 1;
  bool json = false;
};

void add_tap(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
