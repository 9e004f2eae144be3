#include "agent/os/pid_namespace.h"

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace meshbus::os {

Result<void> settle_in_pid_namespace() {
  const auto failed = [](const char* what) {
    return fail(ErrorCode::io_error,
                std::string("pid namespace: ") + what + ": " + std::strerror(errno));
  };
  if (::getpid() != 1)
    return fail(ErrorCode::io_error, "pid namespace: this keeper is not its first process");
  // The numbers that /proc tells must be those that kill() takes, for the sweep and for the procs
  // themselves.
  if (::unshare(CLONE_NEWNS) != 0) return failed("unshare(CLONE_NEWNS)");
  // What we mount is not to be seen outside. In a chroot / may be no mount point; /proc is one.
  const auto keep_to_ourselves = [](const char* below) {
    return ::mount(nullptr, below, nullptr, MS_REC | MS_SLAVE, nullptr) == 0;
  };
  if (!keep_to_ourselves("/") && (errno != EINVAL || !keep_to_ourselves("/proc")))
    return failed("making /, or /proc, a slave mount");
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
    return failed("mounting /proc");
  return {};
}

}  // namespace meshbus::os
