#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::warden {

/// The private directory of one host, `BASE/host-XXXXXXXX`. It is locked as long as the warden or
/// its keeper lives, so that the next warden can tell what a crash of both has left. Not removed by
/// its destructor: the role that ends last calls os::remove_run_directory().
struct HostDir {
  std::string path;
  std::string name;  ///< The eight hex digits; the cgroup has them too.
  UniqueFd lock;     ///< flock(2) held through this open file; the keeper inherits it.
};

/// Why that directory cannot hold hosts: it cannot be trusted, or the paths of sockets in it are
/// too long. Empty: it can, or is not there yet. Changes nothing.
std::string base_dir_problem(const std::string& base);

/// $XDG_RUNTIME_DIR/meshbus when that is ours, else /tmp/meshbus-UID.
std::string default_base_dir();

/// The directory that holds the hosts' directories of this user: `wanted`, or default_base_dir().
/// Made with mode 0700 when absent; refused when it is a link, another user's, or open to others.
/// Errors: configuration_error saying what to do.
Result<std::string> prepare_base_dir(const std::string& wanted);

/// Makes and locks a new host directory. Errors: io_error.
Result<HostDir> make_host_dir(const std::string& base);

/// Writes down what a later warden needs to clean up after us, should both we and the keeper be
/// killed. Errors: io_error. `cgroup` is that of v2, `limits` are directories of limits: whether
/// they are there or not. `aside`: below it its roles may be in os::roles_leaf(); may be empty.
Result<void> record_host(const HostDir& directory, const std::string& cgroup,
                         std::uint64_t process_tag, const std::vector<std::string>& limits = {},
                         const std::string& aside = {});

/// Makes a file of mode 0600 in that directory, and the folders of mode 0700 that its path names.
/// Errors: io_error.
Result<void> write_host_file(const HostDir& directory, const std::string& path,
                             const std::string& text);

/// The directories of hosts whose warden and keeper are both dead; changes nothing.
std::vector<std::string> find_stale_hosts(const std::string& base);
/// Cleans up after hosts whose warden and keeper are both dead: kills what carries their
/// process_tag or sits in their cgroup, removes cgroup and directory. Returns how many there were.
int clean_stale_hosts(const std::string& base);

/// Makes the folder for procs of other users (os::kBusFolder), which may pass through it, and
/// returns `unix:PATH` for the socket there. Errors: io_error.
Result<std::string> make_bus_folder(const HostDir& directory);

/// `unix:PATH` for the broker's socket in that directory. Errors: configuration_error when the path
/// does not fit a socket address.
Result<std::string> socket_address(const HostDir& directory);

}  // namespace meshbus::warden
