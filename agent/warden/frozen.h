#pragma once

#include <chrono>
#include <vector>

#include <sys/types.h>

#include "agent/warden/role_silence.h"

namespace meshbus::warden {

/// What the kernel says of the threads of a process now, for RoleSilence: the main one first; empty
/// when there is no such process.
std::vector<ThreadLook> look_at_threads(pid_t pid);

/// Whether the warden itself was stopped or starved, when a look that was due at `due` comes at
/// `now`: answers may wait behind it, and all roles get a fresh grace. `interval`: between two
/// looks.
bool was_away(std::chrono::steady_clock::time_point now, std::chrono::steady_clock::time_point due,
              std::chrono::nanoseconds interval);

}  // namespace meshbus::warden
