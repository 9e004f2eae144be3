#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "cli/support/cli11_types.h"

/// What may stand at the end of a command line that somebody is typing.
namespace meshbus::cli {

/// A word that fits, and what it means ("8 ranks, live").
struct Candidate {
  std::string word;
  std::string meaning = {};
};

struct Completion {
  /// What the shell finds itself, beside the candidates.
  enum class Shell { nothing, files, command };

  std::vector<Candidate> candidates = {};
  Shell shell = Shell::nothing;
  /// With Shell::command: the word at which that command begins.
  std::size_t command_at = 0;
};

/// What only the hosts know. Each is asked at most once, and only when its answer is needed.
struct LiveNames {
  /// Meshes; `is_live_only` leaves those out whose ranks have all ended.
  std::function<std::vector<Candidate>(bool is_live_only)> meshes;
  /// Ranks and axes of a mesh as a selector writes them: "0", "0-7", "host=1".
  std::function<std::vector<Candidate>(const std::string& mesh)> ranks;
  std::function<std::vector<Candidate>()> hosts;
  std::function<std::vector<Candidate>()> contexts;
};

/// Completes the last of `words`, which stand behind "meshbus" and may be cut off anywhere.
/// Commands, flags and their values are read from `app`, so they are those that it takes.
Completion complete(const CLI::App& app, const std::vector<std::string>& words,
                    const LiveNames& live);

}  // namespace meshbus::cli
