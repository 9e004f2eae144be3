#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <sys/types.h>

#include "meshbus/result.h"

namespace meshbus::os {

/// What must be known of cgroup v2 to decide where a host makes its cgroup.
struct CgroupView {
  std::string own;         ///< The directory of the cgroup that this process is in.
  std::string top;         ///< The highest one that can be seen: where the hierarchy is mounted.
  pid_t self = 0;          ///< Our pid.
  bool may_leave = false;  ///< Root: may make cgroups outside of its own.
};

/// Looks at this process. Errors: not_exist with the reason.
Result<CgroupView> view_cgroups();

/// Where a host makes its cgroup v2, `base`/meshbus-NAME, and what it takes to have procs limited
/// in it. cgroup v2 hands controllers on only where no process is, so a host that is alone in its
/// cgroup moves into a leaf below it, `base`/meshbus-roles, and everything that it starts is born
/// there; the cgroups of procs are beside that leaf. A process moves only itself, ever. A plain
/// value.
struct CgroupPlacement {
  std::string base;  ///< Empty: there is no cgroup v2 that we can see.
  /// Why there is none, or why procs cannot be limited below `base`; empty: they can.
  std::string problem;
  bool enters_roles_leaf = false;  ///< We are in `base`, alone, and must leave it first.
};

/// Decides by what the files in these directories say; changes nothing.
CgroupPlacement plan_cgroup_placement(const CgroupView& view);
/// The same for this process.
CgroupPlacement plan_cgroup_placement();

/// Makes the leaf and moves this process into it, if the plan says so. Errors: io_error saying what
/// failed, and everything is as before.
Result<void> enter_roles_leaf(const CgroupPlacement& place);

/// Makes `path`, the host's cgroup below `base`, and lets the controllers memory, pids and cpu be
/// used in it: those that can be, as its cgroup.subtree_control says then. The host keeps it until
/// it ends: while it is there no other host takes them away. Errors: io_error saying which file and
/// why; nothing is left behind.
Result<void> make_limiting_cgroup(const CgroupPlacement& place, const std::string& path);

/// Undoes what enter_roles_leaf() did for this process, if it did and no other host needs it: takes
/// the controllers back, moves this process back, and removes the leaf when it is empty. Waits up
/// to `limit` for processes in it that are just dying. Call it when the host's cgroup is removed.
void leave_roles_leaf(std::chrono::milliseconds limit);

/// The same for a host all of whose processes are dead.
void clear_roles_leaf(const std::string& base);

/// The cgroup in which hosts below `base` have their roles.
std::string roles_leaf(const std::string& base);

/// For launchers that start hosts: moves this process into the leaf, if that is wanted, so that the
/// hosts may limit procs. Moves it back at the end of the scope.
class RolesLeafScope {
 public:
  explicit RolesLeafScope(bool is_wanted);
  ~RolesLeafScope() { leave_roles_leaf(std::chrono::milliseconds(0)); }
  RolesLeafScope(const RolesLeafScope&) = delete;
  RolesLeafScope& operator=(const RolesLeafScope&) = delete;
};

}  // namespace meshbus::os
