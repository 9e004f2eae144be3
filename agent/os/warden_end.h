#pragma once

#include <chrono>
#include <string>

namespace meshbus::os {

/// Makes broker and agent end when their warden has died. The warden has the kernel send them
/// SIGCONT at its death, which also wakes a role that was stopped; a second later the handler ends
/// its own process, unless that has called end_with_warden() by then: it may be too stuck to. With
/// containment by cgroup v2, the handler also kills everything in the host's cgroup. So nothing is
/// left behind as long as one role lives (spec 4.7).
///
/// Call it first, before there is another thread. `cgroup` is a directory; empty: there is none.
void arm_warden_end(std::string cgroup);

/// For an agent that leaves because the keeper is gone: kills the procs first, in case the
/// warden dies before it does so. Does not wait for their ends.
void kill_with_keeper();

/// For when the warden's lifeline ends: kills in the same way, and thoroughly. Takes a second at
/// most. The caller has kLastWords from then on to tell others of the end; after some more time its
/// process is ended.
void end_with_warden();

/// How long the broker and the agent of a host whose warden has died wait for the keeper, which
/// kills all procs and ends.
inline constexpr std::chrono::milliseconds kLastWords{2500};

}  // namespace meshbus::os
