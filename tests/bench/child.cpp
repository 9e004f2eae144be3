#include "tests/bench/child.h"

#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <stdexcept>

#include <fcntl.h>

extern char** environ;

namespace meshbus::bench {
namespace {

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::runtime_error(what + ": " + std::strerror(error));
}

}  // namespace

Child::Child(std::vector<std::string> argv) : name_(argv.at(0)) {
  std::array<int, 2> in{}, out{};
  if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0) fail("pipe2", errno);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  std::vector<char*> arguments;
  for (auto& one : argv) arguments.push_back(one.data());
  arguments.push_back(nullptr);
  const int error = ::posix_spawn(&pid_, argv[0].c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(in[0]);
  ::close(out[1]);
  in_ = in[1];
  out_ = out[0];
  if (error != 0) {
    ::close(in_);
    ::close(out_);
    fail("cannot start " + name_ + "; build all programs of this preset first", error);
  }
}

Child::~Child() {
  ::close(in_);
  ::kill(pid_, SIGTERM);
  // Its output ends with it.
  pollfd end{out_, 0, 0};
  if (::poll(&end, 1, 2000) <= 0) ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  ::close(out_);
}

std::string Child::read_line() {
  std::string line;
  for (;;) {
    pollfd ready{out_, POLLIN, 0};
    if (::poll(&ready, 1, 10000) <= 0) throw std::runtime_error(name_ + " says nothing");
    char c = 0;
    if (::read(out_, &c, 1) != 1) throw std::runtime_error(name_ + " has ended");
    if (c == '\n') return line;
    line += c;
  }
}

std::chrono::nanoseconds Child::cpu() const {
  clockid_t clock{};
  timespec time{};
  if (const int error = ::clock_getcpuclockid(pid_, &clock); error != 0) fail("CPU time of " + name_, error);
  if (::clock_gettime(clock, &time) != 0) fail("CPU time of " + name_, errno);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

std::string own_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string() + "/";
}

void pin_to_cpu(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) fail("cannot keep to CPU " + std::to_string(cpu), errno);
}

}  // namespace meshbus::bench
