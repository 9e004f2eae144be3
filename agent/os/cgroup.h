#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "agent/os/cgroup_end.h"
#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::os {

/// One cgroup v2 directory, opened for clone3 and for killing. Does not remove itself:
/// remove_cgroup_tree() does.
class Cgroup {
 public:
  /// Makes `parent`/`name`, or takes it when it is there. Errors: io_error.
  static Result<Cgroup> make(const std::string& parent, const std::string& name);
  int fd() const noexcept { return directory_.get(); }
  const std::string& path() const noexcept { return path_; }

 private:
  Cgroup(std::string path, UniqueFd directory)
      : path_(std::move(path)), directory_(std::move(directory)) {}
  std::string path_;
  UniqueFd directory_;
};

/// A cgroup v2 that this process is in.
struct OwnCgroup {
  std::string path;  ///< Its directory.
  std::string top;   ///< Where that hierarchy is mounted: the highest cgroup that we can see.
};
/// From /proc/self/mountinfo and /proc/self/cgroup. Errors: not_exist with the reason.
Result<OwnCgroup> find_own_cgroup();

/// The directory of our own cgroup in the hierarchy of cgroup v1 that has this controller. Nothing:
/// there is none that we can see.
std::optional<std::string> find_v1_cgroup(std::string_view controller);

/// Whether a file, as those of cgroups are, has this among its words.
bool has_word(const std::string& path, std::string_view word);
/// Writes all of it at once. Returns 0 or an errno.
int write_file(const std::string& path, std::string_view value);

/// The file whose line "oom_kill N" counts the out-of-memory kills in the
/// memory cgroup of this process, v1 or v2. `host`: the host's own cgroup v2, in which its procs
/// are, not this process; may be empty. Nothing: there is none that we may read.
std::optional<std::string> find_memory_counter(const std::string& host);

/// Makes the cgroup `base`/meshbus-NAME, if it is not there, and proves that it serves: a child can
/// be born in it and it can be killed. Errors: io_error with the reason; what it has made is not
/// left behind.
Result<std::string> make_host_cgroup(const std::string& base, const std::string& name);

/// Writes pids.max. Errors: not_exist with the reason.
Result<void> limit_pids(const std::string& path, std::uint64_t limit);
/// Makes a cgroup v1 at that path with a limit of processes. Returns what to join it by
/// (join_file_v1). Errors: not_exist with the reason; nothing is left behind.
Result<UniqueFd> make_pids_cgroup(const std::string& path, std::uint64_t limit);
/// The file of a cgroup v1 into which a process with one thread writes "0" to join it. Not
/// cgroup.procs: the kernel then stops the forks of the whole machine, and waits for that 6 to 17
/// ms; here it knows that there is nothing to wait for.
std::string join_file_v1(const std::string& path);
/// Moves this process out of that one into the one above, if it is in it: a process in it cannot
/// remove it.
void leave_pids_cgroup(const std::string& path);

/// A directory name for a mesh: "mesh-" and the name with everything but [A-Za-z0-9_-] replaced;
/// changed names get a hash.
std::string cgroup_name_of_mesh(std::string_view mesh);

}  // namespace meshbus::os
