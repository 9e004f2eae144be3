#include "tests/support/process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace meshbus::test {
namespace {

constexpr std::size_t most_kept =
    64 << 20;  // of each stream; a flooding child must not eat the machine's memory
constexpr std::size_t most_per_read =
    1 << 20;  // so that a flooding child does not keep the waiting test from looking

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_errno("cannot make a pipe");
    read_end = ends[0];
    write_end = ends[1];
  }
};

std::string join(const std::vector<std::string>& argv) {
  std::string text;
  for (const std::string& one : argv) text += (text.empty() ? "" : " ") + one;
  return text;
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/" + name;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  throw std::runtime_error("no program " + name + " in PATH");
}

std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::optional<std::string>>>& changes) {
  std::map<std::string, std::string> variables;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string entry(*at);
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos) variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  for (const auto& [name, value] : changes) {
    if (value) {
      variables[name] = *value;
    } else {
      variables.erase(name);
    }
  }
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& one : texts) pointers.push_back(one.data());
  pointers.push_back(nullptr);
  return pointers;
}

int open_input(const std::optional<std::string>& input) {
  if (!input) return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int fd = ::memfd_create("stdin", MFD_CLOEXEC);
  if (fd < 0 || ::write(fd, input->data(), input->size()) != static_cast<ssize_t>(input->size()) ||
      ::lseek(fd, 0, SEEK_SET) != 0) {
    throw_errno("cannot prepare the input");
  }
  return fd;
}

/// What the child needs between fork and exec, where nothing may be allocated.
struct Launch {
  const char* file;
  char* const* argv;
  char* const* environment;
  const char* directory;
  const int* inherit;
  std::size_t inherit_count;
  int in, out, err, failure;
  pid_t parent;
};

[[noreturn]] void run_child(const Launch& launch) {
  const auto give_up = [&](const char* step) {
    const std::array<int, 1> number = {errno};
    [[maybe_unused]] ssize_t ignored = ::write(launch.failure, number.data(), sizeof number);
    ignored = ::write(launch.failure, step, std::strlen(step));
    ::_exit(127);
  };
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launch.parent) ::_exit(127);
  if (*launch.directory != '\0' && ::chdir(launch.directory) != 0) give_up("chdir");
  if (::dup2(launch.in, 0) < 0 || ::dup2(launch.out, 1) < 0 || ::dup2(launch.err, 2) < 0)
    give_up("dup2");
  if (::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) give_up("close_range");
  for (std::size_t i = 0; i < launch.inherit_count; ++i) {
    if (::fcntl(launch.inherit[i], F_SETFD, 0) != 0) give_up("inherit");
  }
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(launch.file, launch.argv, launch.environment);
  give_up("exec");
  ::_exit(127);
}

std::string last_of(const std::string& text) {
  constexpr std::size_t most = 4000;
  return text.size() <= most ? text : "[...] " + text.substr(text.size() - most);
}

}  // namespace

std::string ExitStatus::to_string() const {
  if (code) return "exit " + std::to_string(*code);
  if (signal) return "signal " + std::to_string(*signal) + " (" + ::strsignal(*signal) + ")";
  return "no status";
}

std::ostream& operator<<(std::ostream& out, const ExitStatus& status) {
  return out << status.to_string();
}

Process::Process(std::vector<std::string> argv, ProcessOptions options) : argv_(std::move(argv)) {
  const std::string file = find_program(argv_.at(0));
  auto environment = environment_with(options.environment);
  const auto argv_pointers = pointers_to(argv_), environment_pointers = pointers_to(environment);
  const Pipe out, err, failure;
  int in = -1;
  if (options.stdin_pipe) {
    const Pipe pipe;
    in = pipe.read_end;
    stdin_ = pipe.write_end;
  } else {
    in = open_input(options.input);
  }
  const Launch launch = {file.c_str(),
                         argv_pointers.data(),
                         environment_pointers.data(),
                         options.directory.c_str(),
                         options.inherit.data(),
                         options.inherit.size(),
                         in,
                         out.write_end,
                         err.write_end,
                         failure.write_end,
                         ::getpid()};
  pid_ = ::fork();
  if (pid_ == 0) run_child(launch);
  const int fork_error = errno;
  for (const int fd : {in, out.write_end, err.write_end, failure.write_end}) ::close(fd);
  out_.fd = out.read_end;
  err_.fd = err.read_end;
  if (pid_ > 0) pidfd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  for (const int fd : {out_.fd, err_.fd}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
  // Ends when exec closed the other end, so from here on the program is the one that was asked for.
  std::array<char, 64> text{};
  int number = 0;
  const ssize_t got = ::read(failure.read_end, &number, sizeof number);
  if (got > 0) [[maybe_unused]]
    const ssize_t step = ::read(failure.read_end, text.data(), text.size() - 1);
  ::close(failure.read_end);
  if (pid_ > 0 && got == 0) return;
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  status_ = ExitStatus::exited(127);
  for (const int fd : {out_.fd, err_.fd, pidfd_, stdin_}) {
    if (fd >= 0) ::close(fd);
  }
  throw std::system_error(
      pid_ > 0 ? number : fork_error, std::generic_category(),
      "cannot start " + join(argv_) + " (" + (pid_ > 0 ? text.data() : "fork") + ")");
}

Process::~Process() {
  send_signal(SIGKILL);
  siginfo_t info{};
  while (!status_ && ::waitid(P_PIDFD, static_cast<id_t>(pidfd_), &info, WEXITED) != 0 &&
         errno == EINTR) {
  }
  out_.close();
  err_.close();
  close_stdin();
  if (pidfd_ >= 0) ::close(pidfd_);
}

void Process::Stream::read_available() {
  // Not on the stack: after a crash this runs on a signal stack. Made once: tests look often.
  static thread_local std::array<char, 1 << 16> buffer;
  for (std::size_t total = 0; fd >= 0 && total < most_per_read;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return close();
    const auto size = static_cast<std::size_t>(got);
    total += size;
    if (text.size() < most_kept) text.append(buffer.data(), size);
  }
}

void Process::Stream::close() {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

void Process::add_descriptors(const std::function<void(int)>& add) {
  if (!status_) add(pidfd_);
  for (const int fd : {out_.fd, err_.fd}) {
    if (fd >= 0) add(fd);
  }
}

void Process::read_available() {
  // First the exit, then the pipes: so everything that was written before the exit is read when the
  // exit is known.
  siginfo_t info{};
  if (!status_ && ::waitid(P_PIDFD, static_cast<id_t>(pidfd_), &info, WEXITED | WNOHANG) != 0 &&
      errno == ECHILD) {
    status_ = ExitStatus{};  // the test reaped it behind our back
  } else if (!status_ && info.si_pid != 0) {
    status_ = info.si_code == CLD_EXITED ? ExitStatus::exited(info.si_status)
                                         : ExitStatus::killed_by(info.si_status);
  }
  out_.read_available();
  err_.read_available();
}

bool Process::is_running() {
  read_available();
  return !status_;
}

ExitStatus Process::wait_exit(std::chrono::milliseconds deadline) {
  if (!wait_until([&] { return status_.has_value(); }, deadline)) {
    throw std::runtime_error("not over within " + std::to_string(deadline.count()) +
                             " ms: " + describe());
  }
  return *status_;
}

void Process::wait_for_output(std::string_view text, std::chrono::milliseconds deadline) {
  const auto has_text = [&] {
    return out_.text.find(text) != std::string::npos || err_.text.find(text) != std::string::npos;
  };
  if (wait_until([&] { return has_text() || status_; }, deadline) && has_text()) return;
  throw std::runtime_error("did not write \"" + std::string(text) + "\" within " +
                           std::to_string(deadline.count()) + " ms: " + describe());
}

void Process::send_signal(int signal) {
  if (!status_) ::syscall(SYS_pidfd_send_signal, pidfd_, signal, nullptr, 0);
}

void Process::send_signal_to_group(int signal) {
  if (!status_) ::kill(-pid_, signal);
}

void Process::write_stdin(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(stdin_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_errno("cannot write to the stdin of " + describe());
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void Process::close_stdin() {
  if (stdin_ >= 0) ::close(stdin_);
  stdin_ = -1;
}

std::string Process::describe() const {
  return join(argv_) + "\n  pid " + std::to_string(pid_) + ", " +
         (status_ ? status_->to_string() : "running") + "\n  stdout: " + last_of(out_.text) +
         "\n  stderr: " + last_of(err_.text);
}

Finished run(std::vector<std::string> argv, std::chrono::milliseconds deadline,
             ProcessOptions options) {
  const auto start = std::chrono::steady_clock::now();
  Process process(std::move(argv), std::move(options));
  const ExitStatus status = process.wait_exit(deadline);
  const auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  return {status, process.out(), process.err(), elapsed};
}

}  // namespace meshbus::test
