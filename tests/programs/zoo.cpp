// A proc with every kind of descendant that is hard to get rid of:
//
//     test_zoo DIR
//
// The proc itself ("rank") makes a child in a session of its own ("session"), a daemon (double
// fork, own session, reparented: "daemon"), a daemon that executes itself again with nothing but
// its name: no environment, no descriptors ("bare"), and a child that ignores SIGTERM, SIGHUP and
// SIGINT ("deaf"). The proc ignores them too. Each writes its pid to DIR/KIND.PID when it is what
// it says, and then waits to be killed. All of them end after a minute: a test that fails leaves
// nothing for longer.
//
//     test_zoo --runner DIR
//
// The proc makes a child that runs away: it forks and ends every few milliseconds, each time in a
// session of its own, so that a search for it finds the pid of a process that is gone. DIR/.running
// is locked (flock) as long as one of them is alive, DIR/.ran is there once the first has ended. It
// gives up after twenty seconds.
//
//     test_zoo --wild DIR
//
// Each proc has a child in a session of its own and a bare daemon, and is by its RANK, over and
// over again: deaf; one that writes without end; stopped; without its main thread, which has ended;
// with a runner; quiet.
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <utility>

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
  if (fd < 0 || ::write(fd, pid.data(), pid.size()) != static_cast<ssize_t>(pid.size()))
    die(hidden.c_str());
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
  const int lock = ::open((directory + "/.running").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0 || ::flock(lock, LOCK_SH) != 0) die("flock");
  say_pid(directory, "runner");
  ignore_polite_signals();
  bool is_first = true;
  while (true) {
    const pid_t child = ::fork();
    if (child > 0) std::_Exit(0);
    if (child == 0) ::setsid();
    if (child == 0 && std::exchange(is_first, false))
      ::close(::open((directory + "/.ran").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ::alarm(longest_run_seconds);  // each of them, should it be kept from looking at the time
    // Also when the fork failed: then this one goes on.
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec - start.tv_sec > longest_run_seconds) std::_Exit(0);
    const timespec pace{0, 3'000'000};
    ::nanosleep(&pace, nullptr);  // sleep-ok: the pace of a process that is to be killed
  }
}

void make_session(const std::string& directory) {
  in_child([&] {
    if (::setsid() < 0) die("setsid");
    live(directory, "session");
  });
}

/// A daemon that executes itself again with nothing but its name.
void make_bare(char* name, char* directory) {
  in_daemon([&] {
    ::close_range(0, ~0U, 0);
    char program[] = "/proc/self/exe";
    char option[] = "--bare";
    char* const arguments[] = {name, option, directory, nullptr};
    char* const environment[] = {nullptr};
    ::execve(program, arguments, environment);
    std::_Exit(98);
  });
}

[[noreturn]] void write_without_end() {
  std::string line(200, 'x');
  line.back() = '\n';
  while (true) {
    if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) ::pause();
  }
}

[[noreturn]] void live_on_without_main_thread(const std::string& directory) {
  static std::string place;
  place = directory;
  pthread_t thread{};
  if (::pthread_create(&thread, nullptr, [](void*) -> void* { live(place, "rank"); }, nullptr) != 0)
    die("pthread_create");
  ::pthread_exit(nullptr);
}

[[noreturn]] void be_wild(const std::string& directory, int rank) {
  ::alarm(longest_life_seconds);
  switch (rank % 6) {
    case 0: ignore_polite_signals(); break;
    case 1: say_pid(directory, "rank"); write_without_end();
    case 2:
      say_pid(directory, "rank");
      ::raise(SIGSTOP);
      while (true) ::pause();
    case 3: live_on_without_main_thread(directory);
    case 4: in_daemon([&] { run_away(directory); }); break;
    default: break;
  }
  live(directory, "rank");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--wild") {
    const char* rank = std::getenv("RANK");
    make_session(argv[2]);
    make_bare(argv[0], argv[2]);
    be_wild(argv[2], rank == nullptr ? 0 : std::atoi(rank));
  }
  if (argc == 3 && std::string(argv[1]) == "--bare") {
    ignore_polite_signals();
    live(argv[2], "bare");
  }
  if (argc == 3 && std::string(argv[1]) == "--runner") {
    in_daemon([&] { run_away(argv[2]); });
    live(argv[2], "rank");
  }
  if (argc != 2) return std::fprintf(stderr, "usage: test_zoo [--runner|--wild] DIR\n"), 2;
  const std::string directory = argv[1];
  ::alarm(longest_life_seconds);
  make_session(directory);
  in_daemon([&] { live(directory, "daemon"); });
  make_bare(argv[0], argv[1]);
  in_child([&] {
    ignore_polite_signals();
    live(directory, "deaf");
  });
  ignore_polite_signals();
  live(directory, "rank");
}
