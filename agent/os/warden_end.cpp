#include "agent/os/warden_end.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

#include "agent/os/cgroup_end.h"

namespace meshbus::os {

namespace {

// Seconds: a role that has not heard of the warden's end by then; and one that goes on after its
// last words.
constexpr unsigned kStuckAfter = 1;
constexpr unsigned kEndedAfter = 5;
// Milliseconds: for the warden's last descriptor.
constexpr int kClosesWithin = 500;

// For a signal handler: plain values, written before it is there, but for is_ending.
struct {
  std::string cgroup;
  int kill_fd = -1;
  pid_t warden = -1;
  volatile std::sig_atomic_t is_ending = 0;
} armed;

void on_parent_death(int) {
  if (::getppid() == armed.warden) return;  // a SIGCONT from elsewhere
  const int saved = errno;
  // Without a cgroup this fails, and does nothing.
  [[maybe_unused]] const auto written = ::write(armed.kill_fd, "1", 1);
  if (armed.is_ending == 0) ::alarm(kStuckAfter);
  errno = saved;
}

}  // namespace

void arm_warden_end(std::string cgroup) {
  if (!cgroup.empty())
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
  armed.is_ending = 1;
  ::alarm(kEndedAfter);
  if (armed.cgroup.empty()) return;
  // What we kill must not seem to have ended by itself: a dying process closes its descriptors one
  // after the other, and the keeper's lifeline may be the last one. Then it has no children.
  for (int i = 0; i < kClosesWithin && ::getppid() == armed.warden; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // sleep-ok: no event tells of it
  // A broker that is root no more can do only this.
  [[maybe_unused]] const auto written = ::write(armed.kill_fd, "1", 1);
  empty_cgroup(armed.cgroup, std::chrono::milliseconds(500));
}

}  // namespace meshbus::os
