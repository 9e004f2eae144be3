#pragma once

#include "common/base/exit_codes.h"

/// The exit codes of the command `meshbus`: those of all programs, and two that are a signal's.
namespace meshbus::cli {

using namespace exits;

/// Nobody reads our output: as if SIGPIPE had ended us.
inline constexpr int kBrokenPipe = by_signal(13);
/// `meshbus run`: another launcher or command stopped the ranks, as SIGTERM would have.
inline constexpr int kStopped = by_signal(15);

}  // namespace meshbus::cli
