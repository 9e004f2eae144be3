#include "cli/top/side_command.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/os_error.h"

extern char** environ;

namespace meshbus::cli {
namespace {

/// A longer line is broken.
constexpr std::size_t kMostLine = 16 * 1024;

}  // namespace

Result<SideCommand> SideCommand::start(const std::vector<std::string>& words) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(ErrorCode::io_error, os_error("pipe"));
  UniqueFd output(ends[0]);
  const UniqueFd input(ends[1]);
  ::fcntl(output.get(), F_SETFL, O_NONBLOCK);
  std::vector<char*> arguments;
  std::string program = "meshbus";
  std::vector<std::string> copies = words;
  arguments.push_back(program.data());
  for (auto& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, input.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, input.get(), STDERR_FILENO);
  // A group of its own: a Ctrl-C in this terminal is not for it.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  sigset_t none;
  sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, "/proc/self/exe", &files, &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  if (error != 0)
    return fail(ErrorCode::io_error, std::string("cannot start meshbus: ") + std::strerror(error));
  return SideCommand(pid, std::move(output));
}

SideCommand::SideCommand(SideCommand&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      output_(std::move(other.output_)),
      rest_(std::move(other.rest_)) {}

SideCommand::~SideCommand() {
  if (pid_ == 0) return;
  ::kill(-pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool SideCommand::read_lines(std::vector<std::string>& lines) {
  std::array<char, 16 * 1024> buffer{};
  // A bounded share: keys come in between.
  for (int i = 0; i < 16; ++i) {
    const auto got = ::read(output_.get(), buffer.data(), buffer.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got <= 0) {
      if (!rest_.empty()) lines.push_back(std::exchange(rest_, {}));
      return false;
    }
    rest_.append(buffer.data(), static_cast<std::size_t>(got));
    std::size_t begin = 0;
    for (auto end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n', begin)) {
      lines.push_back(rest_.substr(begin, end - begin));
      begin = end + 1;
    }
    rest_.erase(0, begin);
    if (rest_.size() > kMostLine) lines.push_back(std::exchange(rest_, {}));
  }
  return true;
}

}  // namespace meshbus::cli
