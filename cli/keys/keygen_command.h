#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/support/cli11_types.h"
#include "wire/codes_generated.h"

namespace meshbus::cli {

class Commands;
/// `meshbus keygen`
struct KeygenArguments {
  /// observer, client, operator, host
  std::string role;
  std::vector<std::string> names;
  /// Empty: keys.directory, or where keys are looked for without it.
  std::string directory;
  bool if_missing = false;
  bool rotate = false;
  bool retire = false;
  /// No key, but a token with which a new host makes its own.
  bool token = false;
  /// With it: the host that takes it, and for how long.
  std::string at;
  std::chrono::milliseconds valid_for = std::chrono::minutes(10);
  /// When the key ends: a time, or so long from now. Nothing: never.
  std::optional<std::int64_t> expires = {};
  /// A host's key: the highest role that its broker vouches for.
  std::optional<wire::Role> ceiling = {};
  bool json = false;
};

void add_keygen(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
