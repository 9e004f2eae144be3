#pragma once

#include <grp.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

#include <compare>
#include <string>
#include <vector>

#include "common/base/os_error.h"
#include "meshbus/result.h"

namespace meshbus {

/// The user of a process.
struct UserIds {
  uid_t user = 0;
  gid_t group = 0;
  std::vector<gid_t> groups = {};  ///< Further ones.

  auto operator<=>(const UserIds&) const = default;
};

/// Makes all threads of this process, which is root's, that user's for good: no rights stay, and
/// none come back by executing a program. It cannot be dumped or traced by that user's other
/// processes. Its signal at the end of its parent stays, which the kernel takes away. Errors:
/// io_error, after which the process must end.
inline Result<void> become_user(const UserIds& ids) {
  const auto failed = [](const char* call) { return fail(ErrorCode::io_error, os_error(call)); };
  int at_parents_end = 0;
  ::prctl(PR_GET_PDEATHSIG, &at_parents_end);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed("no_new_privs");
  if (::setgroups(ids.groups.size(), ids.groups.data()) != 0) return failed("setgroups");
  if (::setresgid(ids.group, ids.group, ids.group) != 0) return failed("setresgid");
  if (::setresuid(ids.user, ids.user, ids.user) != 0) return failed("setresuid");
  if (ids.user != 0 && ::setresuid(0, 0, 0) == 0)
    return fail(ErrorCode::io_error, "this process could become root again");
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  if (at_parents_end != 0 && ::prctl(PR_SET_PDEATHSIG, at_parents_end, 0, 0, 0) != 0)
    return failed("PR_SET_PDEATHSIG");
  return {};
}

}  // namespace meshbus
