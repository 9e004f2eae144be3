#include "tests/bench/child.h"

#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <fcntl.h>

#include "common/unique_fd.h"

extern char** environ;

namespace meshbus::bench {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::runtime_error(what + ": " + std::strerror(error));
}

/// These become stdin and stdout. In our process group: Ctrl-C is for all.
pid_t spawn(std::vector<std::string>& argv, int in, int out) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out, 1);
  std::vector<char*> arguments;
  for (auto& one : argv) arguments.push_back(one.data());
  arguments.push_back(nullptr);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, argv.at(0).c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail("cannot start " + argv[0] + "; build all programs of this preset first", error);
  return pid;
}

volatile std::sig_atomic_t interrupted = 0;

}  // namespace

void catch_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = 1; };
  for (const int one : {SIGINT, SIGTERM}) ::sigaction(one, &action, nullptr);
}

void throw_if_interrupted() {
  if (interrupted != 0) throw std::runtime_error("interrupted");
}

Child::Child(std::vector<std::string> argv) : name_(argv.at(0)) {
  std::array<int, 2> in{}, out{};
  if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0) fail("pipe2", errno);
  const UniqueFd its_in(in[0]), its_out(out[1]);
  UniqueFd our_in(in[1]), our_out(out[0]);
  // Whatever happens to us, it ends.
  argv.insert(argv.begin(), {"/usr/bin/setpriv", "--pdeathsig", "KILL"});
  pid_ = spawn(argv, its_in.get(), its_out.get());
  in_ = our_in.release();
  out_ = our_out.release();
}

Child::~Child() {
  ::close(in_);
  ::kill(pid_, SIGTERM);
  // Its output ends with it.
  pollfd end{out_, 0, 0};
  if (::poll(&end, 1, 5000) <= 0) ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  ::close(out_);
}

std::string Child::read_line() {
  std::string line;
  for (;;) {
    pollfd ready{out_, POLLIN, 0};
    const int polled = ::poll(&ready, 1, 60000);
    throw_if_interrupted();
    if (polled <= 0) throw std::runtime_error(name_ + " says nothing");
    char c = 0;
    if (::read(out_, &c, 1) != 1) throw std::runtime_error(name_ + " has ended");
    if (c == '\n') return line;
    line += c;
  }
}

std::chrono::nanoseconds Child::cpu() const {
  return cpu_of(pid_);
}

std::optional<std::chrono::nanoseconds> time_of(std::vector<std::string> argv, std::chrono::milliseconds limit) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const auto start = std::chrono::steady_clock::now();
  const pid_t pid = spawn(argv, null.get(), null.get());
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd ended{pidfd.get(), POLLIN, 0};
  const bool is_late = ::poll(&ended, 1, static_cast<int>(limit.count())) != 1;  // or we are interrupted
  if (is_late) {
    ::kill(pid, SIGTERM);  // mpirun then ends what it started
    if (::poll(&ended, 1, 2000) != 1) ::kill(pid, SIGKILL);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  const auto took = std::chrono::steady_clock::now() - start;
  throw_if_interrupted();
  if (is_late) return std::nullopt;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw std::runtime_error(argv[0] + " failed (wait status " + std::to_string(status) + ")");
  return took;
}

std::chrono::nanoseconds cpu_of(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  const std::string what = "CPU time of process " + std::to_string(pid);
  if (const int error = ::clock_getcpuclockid(pid, &clock); error != 0) fail(what, error);
  if (::clock_gettime(clock, &time) != 0) fail(what, errno);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

SocketFolder::SocketFolder() {
  std::string pattern = (fs::temp_directory_path() / "meshbus-bench-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) fail("cannot make a folder like " + pattern, errno);
  path_ = pattern;
}

SocketFolder::~SocketFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string own_folder() {
  return fs::read_symlink("/proc/self/exe").parent_path().string() + "/";
}

std::optional<std::string> find_in_path(const std::string& program) {
  const char* path = ::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = folder + "/" + program;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return std::nullopt;
}

void pin_to_cpu(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) fail("cannot keep to CPU " + std::to_string(cpu), errno);
}

}  // namespace meshbus::bench
