#include "agent/os/warden_end.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

#include "agent/os/cgroup_end.h"

namespace meshbus::os {

namespace {

// For a signal handler: plain values, written once before it is there.
struct {
  std::string cgroup;
  int kill_fd = -1;
  pid_t warden = -1;
} armed;

void on_parent_death(int) {
  if (::getppid() == armed.warden) return;  // a SIGCONT from elsewhere
  const int saved = errno;
  [[maybe_unused]] const auto written = ::write(armed.kill_fd, "1", 1);
  ::alarm(1);
  errno = saved;
}

}  // namespace

void arm_warden_end(std::string cgroup) {
  if (cgroup.empty()) return;
  armed.kill_fd = ::open((cgroup + "/cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC);
  armed.warden = ::getppid();
  armed.cgroup = std::move(cgroup);
  struct sigaction action{};
  action.sa_handler = on_parent_death;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGCONT, &action, nullptr);
}

void kill_with_keeper() {
  if (!armed.cgroup.empty()) kill_cgroup(armed.cgroup);
}

void end_with_warden() {
  if (armed.cgroup.empty()) return;
  // A broker that is root no more can do only this.
  [[maybe_unused]] const auto written = ::write(armed.kill_fd, "1", 1);
  empty_cgroup(armed.cgroup, std::chrono::milliseconds(500));
}

}  // namespace meshbus::os
