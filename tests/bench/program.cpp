#include "tests/bench/program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "bench/child.h"
#include "common/base/unique_fd.h"

extern char** environ;

namespace meshbus::bench {
namespace {

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
  const int error =
      ::posix_spawn(&pid, argv.at(0).c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    throw std::runtime_error("cannot start " + argv[0] +
                             "; build all programs of this preset first: " + std::strerror(error));
  return pid;
}

}  // namespace

std::optional<std::chrono::nanoseconds> time_of(std::vector<std::string> argv,
                                                std::chrono::milliseconds limit) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const auto start = std::chrono::steady_clock::now();
  const pid_t pid = spawn(argv, null.get(), null.get());
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd ended{pidfd.get(), POLLIN, 0};
  const bool is_late =
      ::poll(&ended, 1, static_cast<int>(limit.count())) != 1;  // or we are interrupted
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

std::optional<std::string> find_in_path(const std::string& program) {
  const char* path = ::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = folder + "/" + program;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return std::nullopt;
}

}  // namespace meshbus::bench
