#pragma once

#include <chrono>
#include <optional>
#include <string>

/// How what is in a cgroup ends: shared by all roles of a host, and plain POSIX as the keeper is.
namespace meshbus::os {

/// All of a file, as those of cgroups and of /proc are. Nothing: it cannot be read.
std::optional<std::string> read_cgroup_file(const std::string& path);

/// Writes cgroup.kill: everything in it and below gets SIGKILL. Returns at once.
void kill_cgroup(const std::string& path);

/// Is a live process in it or below? False when it is not there.
bool is_populated(const std::string& path);

/// Kills one by one what cgroup.procs lists, here and below: cgroup.kill misses a process whose
/// main thread has exited.
void kill_listed(const std::string& path);

/// kill_cgroup, wait for `populated 0`, kill_listed for what stays; until empty or the deadline.
/// True: empty.
bool empty_cgroup(const std::string& path, std::chrono::milliseconds deadline);

/// Removes the directory and those below, deepest first. True: it is gone.
bool remove_cgroup_tree(const std::string& path);

/// The same for one that may have processes: kills them, again and again, until it
/// is gone or the deadline. For cgroup v1, too, which knows no cgroup.kill. True: it is gone.
bool clear_cgroup_tree(const std::string& path, std::chrono::milliseconds deadline);

}  // namespace meshbus::os
