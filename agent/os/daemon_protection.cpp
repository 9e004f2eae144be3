#include "agent/os/daemon_protection.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "agent/os/cgroup.h"

namespace meshbus::os {

void forbid_dumps() {
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

std::optional<int> lower_oom_score() {
  // Another user with the right to lower it could not raise it again for procs: the file belongs to
  // root once dumps are forbidden.
  if (::geteuid() != 0) return std::nullopt;
  const std::string file = "/proc/self/oom_score_adj";
  int before = 0;
  if (!(std::ifstream(file) >> before) || before <= kRoleOomScore) return std::nullopt;
  if (write_file(file, std::to_string(kRoleOomScore)) != 0) return std::nullopt;
  return before;
}

}  // namespace meshbus::os
