#pragma once

#include <chrono>

namespace meshbus::warden {

/// What a look at a role that gave no sign of life says of it (spec 4.7): only what is frozen is killed.
enum class Silence {
  ended,             ///< It is not there any more: its exit is on its way.
  waits_for_device,  ///< State D: a kill would not help, and it may wake.
  waits_for_cpu,     ///< It wanted to run for more than half of the time: slow, not dead.
  stopped,           ///< Frozen: by SIGSTOP or a debugger.
  stuck,             ///< Frozen: it could have answered.
};

/// `state`: the letter of /proc/PID/stat, 0 when there is no such process. `silence`: how long it has said nothing. `waited`: how long of
/// that it waited for a CPU.
Silence judge_silence(char state, std::chrono::nanoseconds silence, std::chrono::nanoseconds waited);

/// Whether the warden itself was stopped or starved, when a look that was due at `due` comes at `now`: answers may wait behind it, and
/// everybody gets a fresh grace. `interval`: between two looks.
bool was_away(std::chrono::steady_clock::time_point now, std::chrono::steady_clock::time_point due, std::chrono::nanoseconds interval);

}  // namespace meshbus::warden
