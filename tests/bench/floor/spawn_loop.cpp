// The floor under a launch: COUNT times /bin/true by clone3(VM|VFORK|PIDFD), 64 of them at most at
// once, reaped when their pidfds say so. Usage: meshbus-floor-spawn COUNT [cgroup]. With "cgroup"
// each is born in one of cgroup v2 that is removed at the end, as procs of a host with that
// containment are. Prints the wall time and the CPU time of this process, both in microseconds.
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "agent/os/cgroup.h"
#include "agent/os/cgroup_placement.h"
#include "agent/os/child_plan.h"
#include "agent/os/raw_syscall.h"
#include "common/base/unique_fd.h"

extern char** environ;

namespace {

using namespace meshbus;
using namespace meshbus::os;

constexpr int kMostInFlight = 64;
constexpr std::size_t kStackBytes = 64 * 1024;
constexpr char kProgram[] = "/bin/true";

/// The child: shares our memory, has a stack of its own, and may do nothing but system calls.
void become_true(void*) {
  static const char* const argv[] = {kProgram, nullptr};
  const std::uint64_t empty_mask = 0;
  raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<long>(&empty_mask), 0, 8);
  raw_syscall(SYS_execve, reinterpret_cast<long>(kProgram), reinterpret_cast<long>(argv),
              reinterpret_cast<long>(environ));
  for (;;) raw_syscall(SYS_exit_group, 127);
}

/// The cgroup that was made; empty: none.
std::string folder;

[[noreturn]] void give_up(const std::string& what) {
  ::closefrom(3);  // room for what cleaning up opens
  if (!folder.empty() && empty_cgroup(folder, std::chrono::seconds(1))) remove_cgroup_tree(folder);
  std::fprintf(stderr, "meshbus-floor-spawn: %s\n", what.c_str());
  std::exit(70);
}

double own_cpu_us() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/// Reaps what has ended; the number. Waits for the first one.
int reap(int epoll) {
  epoll_event events[kMostInFlight];
  const int ready = ::epoll_wait(epoll, events, kMostInFlight, -1);
  for (int i = 0; i < ready; ++i) {
    const UniqueFd pidfd(events[i].data.fd);
    // A child that is about to execute still has a copy of it, and would keep it in the set.
    ::epoll_ctl(epoll, EPOLL_CTL_DEL, pidfd.get(), nullptr);
    siginfo_t info{};
    if (::waitid(P_PIDFD, static_cast<id_t>(pidfd.get()), &info, WEXITED) != 0)
      give_up("waitid: " + std::string(std::strerror(errno)));
    if (info.si_code != CLD_EXITED || info.si_status != 0) give_up("/bin/true failed");
  }
  return ready < 0 ? 0 : ready;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 0;
  if (count < 1) {
    std::fprintf(stderr, "usage: meshbus-floor-spawn COUNT [cgroup]\n");
    return 64;
  }
  std::optional<Cgroup> cgroup;
  if (argc > 2) {
    auto made = make_host_cgroup(meshbus::os::plan_cgroup_placement().base,
                                 "floor-" + std::to_string(::getpid()));
    if (!made) give_up(made.error().to_string());
    folder = *made;
    auto opened = Cgroup::make(folder, "procs");
    if (!opened) give_up(opened.error().to_string());
    cgroup.emplace(std::move(*opened));
  }
  void* const stack = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) give_up("no memory for a stack");
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));

  const double cpu = own_cpu_us();
  const auto start = std::chrono::steady_clock::now();
  int started = 0, ended = 0;
  while (ended < count) {
    while (started < count && started - ended < kMostInFlight) {
      int pidfd = -1;
      const long pid = clone_with_clone3({.entry = become_true,
                                          .stack = stack,
                                          .stack_size = kStackBytes,
                                          .cgroup = cgroup ? cgroup->fd() : -1},
                                         pidfd);
      if (pid < 0) give_up("clone3: " + std::string(std::strerror(static_cast<int>(-pid))));
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.fd = pidfd;
      if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, pidfd, &event) != 0) give_up("epoll_ctl failed");
      ++started;
    }
    ended += reap(epoll.get());
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  std::printf("%.1f %.1f\n", took.count(), own_cpu_us() - cpu);
  if (!folder.empty() && !remove_cgroup_tree(folder)) give_up("cannot remove " + folder);
  return 0;
}
