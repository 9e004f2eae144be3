// The floor under the notice of a death: SIGKILL, and epoll wakes up because of the pidfd, in the
// same process. Usage: meshbus-floor-notice KILLS BYSTANDERS PAUSE_MS: that many processes are
// killed one after the other, the others only watched. Prints the median and the 99th percentile in
// microseconds.
//        meshbus-floor-notice KILLS BYSTANDERS all: they get SIGTERM at once, and are reaped as
//        they end. Prints the milliseconds of all.
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
#include <string_view>
#include <vector>

#include "common/base/unique_fd.h"

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

double kill_all(int epoll, std::vector<Sleeper>& all, std::size_t kills) {
  const auto start = Clock::now();
  for (std::size_t i = 0; i < kills; ++i) ::kill(all[i].pid, SIGTERM);
  std::vector<epoll_event> events(256);
  for (std::size_t reaped = 0; reaped < kills;) {
    const int ready = ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), 20000);
    if (ready < 1) std::exit(70);
    for (int i = 0; i < ready; ++i) {
      const int pidfd = events[static_cast<std::size_t>(i)].data.fd;
      siginfo_t info{};
      if (::waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED) != 0) std::exit(70);
      ::epoll_ctl(epoll, EPOLL_CTL_DEL, pidfd, nullptr);
      ++reaped;
    }
  }
  const std::chrono::duration<double, std::milli> took = Clock::now() - start;
  return took.count();
}

}  // namespace

int main(int argc, char** argv) {
  const int kills = argc > 3 ? std::atoi(argv[1]) : 0,
            bystanders = argc > 3 ? std::atoi(argv[2]) : 0;
  if (kills < 1 || bystanders < 0) {
    std::fprintf(stderr, "usage: meshbus-floor-notice KILLS BYSTANDERS PAUSE_MS|all\n");
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
  if (std::string_view(argv[3]) == "all") {
    std::printf("%.3f\n", kill_all(epoll.get(), all, static_cast<std::size_t>(kills)));
  } else {
    std::vector<double> times;
    for (int i = 0; i < kills; ++i) {
      times.push_back(kill_and_notice(epoll.get(), all[static_cast<std::size_t>(i)]));
      const auto pause = static_cast<useconds_t>(std::atoi(argv[3])) * 1000;
      ::usleep(pause);  // sleep-ok: as in bench_notice.cpp
    }
    std::sort(times.begin(), times.end());
    std::printf("%.1f %.1f\n", times[times.size() / 2], times[times.size() * 99 / 100]);
  }
  for (std::size_t i = static_cast<std::size_t>(kills); i < all.size(); ++i) {
    ::kill(all[i].pid, SIGKILL);
    ::waitpid(all[i].pid, nullptr, 0);
  }
}
