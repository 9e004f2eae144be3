#pragma once

#include <string>
#include <vector>

#include "agent/hands/rank_place.h"

namespace meshbus::hands {

/// A command in the place of a rank.
struct Command {
  std::vector<std::string> words;
  std::vector<std::string> environment;
};

/// Becomes that command, for good: takes the rank's user and executes it. stderr says why it could
/// not be; the exit code is that of a shell.
[[noreturn]] void execute(const RankPlace& place, const Command& command);

/// Ends this process as one ended of which waitpid() says so.
[[noreturn]] void end_like(int status);

}  // namespace meshbus::hands
