// The floor under the notice of a death: SIGKILL, and epoll wakes up because of the pidfd, in the same process.
// Usage: meshbus-floor-notice KILLS BYSTANDERS: that many processes are killed one after the other, the others only watched. Prints the
// median and the 99th percentile in microseconds.
#include <fcntl.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "common/unique_fd.h"

extern char** environ;

namespace {

using meshbus::UniqueFd;
using Clock = std::chrono::steady_clock;

struct Sleeper {
  pid_t pid = -1;
  UniqueFd pidfd;
};

/// Reads a pipe that nobody writes to and only we hold: it ends with us, whatever happens.
Sleeper start_sleeper(int epoll, int pipe) {
  char program[] = "/bin/cat";
  char* argv[] = {program, nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe, 0);
  Sleeper one;
  if (::posix_spawn(&one.pid, program, &actions, nullptr, argv, environ) != 0) std::exit(70);
  ::posix_spawn_file_actions_destroy(&actions);
  one.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, one.pid, 0)));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = one.pidfd.get();
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, one.pidfd.get(), &event) != 0) std::exit(70);
  return one;
}

double kill_and_notice(int epoll, Sleeper& one) {
  const auto start = Clock::now();
  ::kill(one.pid, SIGKILL);
  epoll_event event{};
  if (::epoll_wait(epoll, &event, 1, 20000) != 1 || event.data.fd != one.pidfd.get()) std::exit(70);
  const std::chrono::duration<double, std::micro> took = Clock::now() - start;
  ::waitpid(one.pid, nullptr, 0);
  one.pidfd.reset();
  return took.count();
}

}  // namespace

int main(int argc, char** argv) {
  const int kills = argc > 2 ? std::atoi(argv[1]) : 0, bystanders = argc > 2 ? std::atoi(argv[2]) : 0;
  if (kills < 1 || bystanders < 0) {
    std::fprintf(stderr, "usage: meshbus-floor-notice KILLS BYSTANDERS\n");
    return 64;
  }
  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return 70;
  std::vector<Sleeper> all;
  for (int i = 0; i < kills + bystanders; ++i) all.push_back(start_sleeper(epoll.get(), ends[0]));
  // Until they have got to their sleep.
  epoll_event none{};
  if (::epoll_wait(epoll.get(), &none, 1, 300) != 0) return 70;
  std::vector<double> times;
  for (int i = 0; i < kills; ++i) times.push_back(kill_and_notice(epoll.get(), all[static_cast<std::size_t>(i)]));
  std::sort(times.begin(), times.end());
  std::printf("%.1f %.1f\n", times[times.size() / 2], times[times.size() * 99 / 100]);
  for (std::size_t i = static_cast<std::size_t>(kills); i < all.size(); ++i) {
    ::kill(all[i].pid, SIGKILL);
    ::waitpid(all[i].pid, nullptr, 0);
  }
}
