#pragma once

#include <string>

namespace meshbus::test {

/// Makes a cgroup v2 below the one that this process is in, and removes those that labs of dead
/// processes have left there. Returns its directory, or nothing where none can be made.
std::string make_lab_cgroup();
/// A cgroup below that one. Throws.
void make_cgroup(const std::string& path);
/// Removes it with those below it, once nobody is in it. False when somebody still is.
bool remove_cgroup(const std::string& path);
/// Throws when the kernel does not take it.
void write_cgroup(const std::string& path, const char* file, const char* text);
/// Whether cgroup.events says so: has_event(path, "frozen 1").
bool has_event(const std::string& path, const std::string& line);

}  // namespace meshbus::test
