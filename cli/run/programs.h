#pragma once

#include <string>
#include <vector>

#include "meshbus/result.h"

namespace meshbus::cli {

/// One program of a command line.
struct ProgramWords {
  /// In front of `--`. Of the first program they are not here: they are the command line's own.
  std::vector<std::string> options;
  std::vector<std::string> command;
};

/// The programs of a command line, out of its words behind the first `--`: `trainer --lr 1 : -n 4
/// -- rollout`. A `:` of its own begins another program when the word after it is a flag, or `--`,
/// and there is a `--` behind it; any other `:` is a word of the command, and so is the one that is
/// written `\:` (a word of backslashes and a `:` loses one of them). Errors: parse_error: a
/// program without a command, or flags behind a `:` without `--`. Pure.
Result<std::vector<ProgramWords>> split_programs(const std::vector<std::string>& words);

}  // namespace meshbus::cli
