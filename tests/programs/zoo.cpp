// A proc with every kind of descendant that is hard to get rid of:
//
//     test_zoo DIR
//
// The proc itself ("rank") makes a child in a session of its own ("session"), a daemon (double fork, own session, reparented: "daemon"), a
// daemon that executes itself again with nothing but its name: no environment, no descriptors ("bare"), and a child that ignores
// SIGTERM, SIGHUP and SIGINT ("deaf"). The proc ignores them too. Each writes its pid to DIR/KIND.PID when it is what it says, and then
// waits to be killed. All of them end after a minute: a test that fails leaves nothing for longer.
//
//     test_zoo --runner DIR
//
// The proc makes a child that runs away: it forks and ends every few milliseconds, each time in a session of its own, so that whoever
// looks for it finds the pid of somebody who is gone. DIR/runner is there once it runs. It gives up after twenty seconds.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

namespace {

constexpr unsigned longest_life_seconds = 60;
constexpr long longest_run_seconds = 20;

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::_Exit(99);
}

/// The file appears with its content, or not at all.
void say_pid(const std::string& directory, const char* kind) {
  const std::string pid = std::to_string(::getpid());
  const std::string hidden = directory + "/." + kind + "." + pid;
  const int fd = ::open(hidden.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, pid.data(), pid.size()) != static_cast<ssize_t>(pid.size())) die(hidden.c_str());
  ::close(fd);
  if (::rename(hidden.c_str(), (directory + "/" + kind + "." + pid).c_str()) != 0) die("rename");
}

[[noreturn]] void live(const std::string& directory, const char* kind) {
  ::alarm(longest_life_seconds);  // a fork has cleared that of the parent
  say_pid(directory, kind);
  while (true) ::pause();
}

void ignore_polite_signals() {
  for (const int signal : {SIGTERM, SIGHUP, SIGINT}) ::signal(signal, SIG_IGN);
}

/// Runs `body` in a child.
template <typename Body>
void in_child(Body body) {
  const pid_t pid = ::fork();
  if (pid < 0) die("fork");
  if (pid != 0) return;
  body();
  std::_Exit(0);
}

template <typename Body>
void in_daemon(Body body) {
  in_child([&] {
    if (::setsid() < 0) die("setsid");
    in_child(body);
  });
}

[[noreturn]] void run_away(const std::string& directory) {
  timespec start{};
  ::clock_gettime(CLOCK_MONOTONIC, &start);
  say_pid(directory, "runner");
  ignore_polite_signals();
  while (true) {
    const pid_t child = ::fork();
    if (child > 0) std::_Exit(0);
    if (child == 0) ::setsid();
    // Also when the fork failed: then this one goes on.
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec - start.tv_sec > longest_run_seconds) std::_Exit(0);
    const timespec pace{0, 3'000'000};
    ::nanosleep(&pace, nullptr);  // sleep-ok: the pace of a process that is to be killed
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--bare") {
    ignore_polite_signals();
    live(argv[2], "bare");
  }
  if (argc == 3 && std::string(argv[1]) == "--runner") {
    in_daemon([&] { run_away(argv[2]); });
    live(argv[2], "rank");
  }
  if (argc != 2) return std::fprintf(stderr, "usage: test_zoo [--runner] DIR\n"), 2;
  const std::string directory = argv[1];
  ::alarm(longest_life_seconds);
  in_child([&] {
    if (::setsid() < 0) die("setsid");
    live(directory, "session");
  });
  in_daemon([&] { live(directory, "daemon"); });
  in_daemon([&] {
    ::close_range(0, ~0U, 0);
    char program[] = "/proc/self/exe";
    char option[] = "--bare";
    char* const arguments[] = {argv[0], option, argv[1], nullptr};
    char* const environment[] = {nullptr};
    ::execve(program, arguments, environment);
    std::_Exit(98);
  });
  in_child([&] {
    ignore_polite_signals();
    live(directory, "deaf");
  });
  ignore_polite_signals();
  live(directory, "rank");
}
