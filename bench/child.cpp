#include "bench/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <stdexcept>

#include "common/base/unique_fd.h"

namespace meshbus::bench {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::runtime_error(what + ": " + std::strerror(error));
}

/// Between fork and exec: only what may be called there.
[[noreturn]] void become(char* const* argv, int in, int out, pid_t parent) {
  // Whatever happens to us, it ends.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() == parent && ::dup2(in, 0) == 0 && ::dup2(out, 1) == 1) ::execv(argv[0], argv);
  ::_exit(127);
}

volatile std::sig_atomic_t interrupted = 0;

}  // namespace

void catch_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int which) { interrupted = which; };
  for (const int one : {SIGINT, SIGTERM}) ::sigaction(one, &action, nullptr);
}

void throw_if_interrupted() {
  if (interrupted != 0) throw Interrupted(interrupted);
}

Child::Child(std::vector<std::string> argv) : name_(argv.at(0)) {
  std::array<int, 2> in{}, out{};
  if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0)
    fail("pipe2", errno);
  const UniqueFd its_in(in[0]), its_out(out[1]);
  UniqueFd our_in(in[1]), our_out(out[0]);
  if (::access(name_.c_str(), X_OK) != 0)
    fail("cannot start " + name_ + ", which belongs to this program", errno);
  std::vector<char*> arguments;
  for (auto& one : argv) arguments.push_back(one.data());
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become(arguments.data(), its_in.get(), its_out.get(), parent);
  if (pid_ < 0) fail("fork", errno);
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

void Child::write_line(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(in_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw std::runtime_error(name_ + " has ended");
}

bool Child::has_ended() const {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid == pid_;
}

std::chrono::nanoseconds Child::cpu() const {
  return cpu_of(pid_);
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

void pin_to_cpu(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0)
    fail("cannot keep to CPU " + std::to_string(cpu), errno);
}

}  // namespace meshbus::bench
