#pragma once

#include <string>

namespace meshbus::os {

/// What broker and agent do when their warden is gone, with containment by cgroup v2: kill all that
/// is in the host's cgroup, so that nothing is left behind while one role lives (spec 4.7), whoever
/// else died. The warden has the kernel send them SIGCONT at its death, which also wakes one that
/// was stopped; without a cgroup it is SIGKILL, and none of this is used.
///
/// Call it first, before there is another thread. `cgroup` is a directory; empty: nothing is done.
/// The handler kills what cgroup.kill kills, and ends a process that is too stuck to end itself a
/// second later.
void arm_warden_end(std::string cgroup);

/// For an agent that leaves because the keeper is gone: kills the procs first, in case the
/// warden dies before it does so. Does not wait for their ends.
void kill_with_keeper();

/// For when the warden's lifeline ends: kills in the same way, and thoroughly. Takes a second at
/// most.
void end_with_warden();

}  // namespace meshbus::os
