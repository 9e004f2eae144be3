#pragma once

#include <string>

namespace meshbus::os {

/// Makes broker and agent clean up when their warden has died, with containment by cgroup v2: they
/// kill everything in the host's cgroup. So nothing is left behind as long as one role lives (spec
/// 4.7). The warden has the kernel send them SIGCONT at its death, which also wakes a role that was
/// stopped. Without a cgroup the kernel sends SIGKILL instead, and none of this is used.
///
/// Call it first, before there is another thread. `cgroup` is a directory; if it is empty, nothing
/// is done. The handler writes to cgroup.kill, and a second later ends its own process if that is
/// too stuck to end itself.
void arm_warden_end(std::string cgroup);

/// For an agent that leaves because the keeper is gone: kills the procs first, in case the
/// warden dies before it does so. Does not wait for their ends.
void kill_with_keeper();

/// For when the warden's lifeline ends: kills in the same way, and thoroughly. Takes a second at
/// most.
void end_with_warden();

}  // namespace meshbus::os
