#pragma once

#include <vector>

#include <sys/types.h>

namespace meshbus::os {

/// Stops a process, which must be a child of ours that is not reaped, its process group and all its
/// descendants, whatever groups they are in. What is stopped forks no more, so this ends. Returns
/// the descendants. One thread.
std::vector<pid_t> stop_tree(pid_t pid);

/// Continues what stop_tree() has stopped. The parents of the descendants were stopped meanwhile
/// and reaped nothing, so these numbers are still their own.
void continue_tree(pid_t pid, const std::vector<pid_t>& descendants);

}  // namespace meshbus::os
