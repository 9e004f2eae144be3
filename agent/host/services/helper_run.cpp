#include "agent/host/services/helper_run.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "agent/host/model/exit_report.h"

namespace meshbus::host {
namespace {

/// No answer of a helper is longer: it has to fit into a message.
constexpr std::size_t kLongestOutput = 1u << 20;

/// Where the programs of this release are: beside this one.
std::string beside_us(const std::string& program) {
  if (program.starts_with('/')) return program;
  std::array<char, 4096> path{};
  const auto n = ::readlink("/proc/self/exe", path.data(), path.size());
  const std::string own(path.data(), n < 0 ? 0 : static_cast<std::size_t>(n));
  return own.substr(0, own.find_last_of('/') + 1) + program;
}

/// Takes the exit of a program that was killed. One that waits for a dead file server does not end
/// before that is back, and this agent must not wait for it.
void reap(Reactor& reactor, pid_t pid) {
  if (::waitpid(pid, nullptr, WNOHANG) != 0) return;
  reactor.after(std::chrono::seconds(1), [&reactor, pid] { reap(reactor, pid); });
}

/// posix_spawn's two objects.
struct Recipe {
  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};
  explicit Recipe(int output) {
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    sigset_t ordinary;
    sigemptyset(&ordinary);
    sigaddset(&ordinary, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes, &ordinary);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Recipe() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  Recipe(const Recipe&) = delete;
  Recipe& operator=(const Recipe&) = delete;
};

}  // namespace

Result<std::unique_ptr<HelperRun>> HelperRun::start(Reactor& reactor, const std::string& program,
                                                    const std::vector<std::string>& arguments,
                                                    std::chrono::milliseconds limit, Done done) {
  const auto path = beside_us(program);
  if (::access(path.c_str(), X_OK) != 0)
    return fail(ErrorCode::refused, "this host has no " + program + ": " + std::strerror(errno));
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return fail(ErrorCode::io_error, std::string("a pipe: ") + std::strerror(errno));
  UniqueFd reading(ends[0]);
  const UniqueFd writing(ends[1]);
  ::fcntl(reading.get(), F_SETFL, O_NONBLOCK);
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const Recipe recipe(writing.get());
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, path.c_str(), &recipe.files, &recipe.attributes, argv.data(), environ);
  if (error != 0) return fail(ErrorCode::io_error, program + ": " + std::strerror(error));
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) {
    const auto why = std::string("pidfd_open: ") + std::strerror(errno);
    ::kill(pid, SIGKILL);
    reap(reactor, pid);
    return fail(ErrorCode::io_error, why);
  }
  auto run = std::unique_ptr<HelperRun>(
      new HelperRun(reactor, pid, std::move(process), std::move(reading), std::move(done)));
  run->timer_ = reactor.after(limit, [self = run.get()] { self->end(/*is_late=*/true); });
  return run;
}

HelperRun::HelperRun(Reactor& reactor, pid_t pid, UniqueFd process, UniqueFd output, Done done)
    : reactor_(reactor),
      pid_(pid),
      process_(std::move(process)),
      output_(std::move(output)),
      done_(std::move(done)) {
  reactor_.watch(process_.get(), EPOLLIN, [this](std::uint32_t) { on_exit(); });
  reactor_.watch(output_.get(), EPOLLIN, [this](std::uint32_t) {
    read_output();
    if (text_.size() > kLongestOutput) end(/*is_late=*/false);
  });
}

HelperRun::~HelperRun() {
  reactor_.cancel(timer_);
  close();
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  reap(reactor_, pid_);
}

void HelperRun::close() {
  if (process_) reactor_.forget(process_.get());
  if (output_) reactor_.forget(output_.get());
  process_.reset();
  output_.reset();
}

void HelperRun::read_output() {
  std::array<char, 65536> piece{};
  while (output_ && text_.size() <= kLongestOutput) {
    const auto n = ::read(output_.get(), piece.data(), piece.size());
    if (n < 0) return;
    if (n == 0) {
      // It may end later than it closes its stdout.
      reactor_.forget(output_.get());
      output_.reset();
      return;
    }
    text_.append(piece.data(), static_cast<std::size_t>(n));
  }
}

void HelperRun::on_exit() {
  read_output();
  end(/*is_late=*/false);
}

void HelperRun::end(bool is_late) {
  reactor_.cancel(std::exchange(timer_, 0));
  close();
  const bool is_too_long = text_.size() > kLongestOutput;
  int status = 0;
  const auto reaped = ::waitpid(pid_, &status, WNOHANG);
  if (reaped == 0) {
    ::kill(pid_, SIGKILL);
    reap(reactor_, pid_);
  }
  pid_ = 0;
  Result<std::string> outcome = std::move(text_);
  if (is_late)
    outcome = fail(ErrorCode::timeout, "it was not ready in time");
  else if (is_too_long)
    outcome = fail(ErrorCode::io_error, "it wrote too much");
  else if (reaped > 0 && WIFSIGNALED(status))
    outcome = fail(ErrorCode::io_error, "it was ended by " + signal_name(WTERMSIG(status)));
  else if (reaped > 0 && WEXITSTATUS(status) != 0)
    outcome =
        fail(ErrorCode::io_error, "it ended with exit " + std::to_string(WEXITSTATUS(status)));
  // The last thing: it may destroy this object.
  const auto done = std::move(done_);
  done(std::move(outcome));
}

}  // namespace meshbus::host
