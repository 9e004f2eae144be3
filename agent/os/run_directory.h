#pragma once

#include <chrono>
#include <string>

namespace meshbus::os {

/// In the run directory of a host: locked as long as its warden or keeper lives (warden/run_dir.h).
inline constexpr char kLockFile[] = "lock";
/// There, for a host of root: the folder of the socket for procs of other users. The folders above
/// are closed to them, so only a process that was given a descriptor of this one comes here.
inline constexpr char kBusFolder[] = "procs";
/// In that folder.
inline constexpr char kBusSocket[] = "bus";

/// Removes a run directory with all that is in it, the lock last: by it the next host finds what is
/// left when we are killed meanwhile. Broker and agent may not be dead yet and still make a file:
/// it is tried again for so long. What is gone already is fine.
void remove_run_directory(const std::string& path, std::chrono::milliseconds limit);

}  // namespace meshbus::os
