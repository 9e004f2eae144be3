#include "client/src/launch/launched_host.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "client/src/launch/host_lifelines.h"
#include "common/base/lifeline_release.h"
#include "common/base/masked_thread.h"
#include "meshbus/rank_report.h"

namespace meshbus {
namespace {

constexpr std::size_t kTailBytes = 8 * 1024;
constexpr std::size_t kReadyBytes = 64 * 1024;
// Where the host finds its descriptors.
constexpr int kReadyFd = 3;
constexpr int kLifelineFd = 4;

std::string why(const char* call) {
  return std::string(call) + ": " + std::strerror(errno);
}

/// Above the numbers that the child's own descriptors get, so that placing one never overwrites
/// another.
UniqueFd move_up(UniqueFd fd) {
  return UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 16));
}

/// Appends what a non-blocking descriptor has. False at its end.
bool read_available(int fd, std::string& to, std::size_t limit) {
  for (;;) {
    char buffer[4096];
    const auto count = ::read(fd, buffer, sizeof buffer);
    if (count > 0) {
      to.append(buffer, static_cast<std::size_t>(count));
      if (to.size() >= limit) return true;
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    return count < 0 && errno == EAGAIN;
  }
}

}  // namespace

struct LaunchedHost::SpawnActions {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  SpawnActions() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnActions() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
};

Result<void> LaunchedHost::spawn(const std::string& program,
                                 const std::vector<std::string>& arguments) {
  int ready[2];
  int errors[2];
  int lifeline[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) return fail(ErrorCode::io_error, why("pipe2"));
  ready_.reset(ready[0]);
  const UniqueFd ready_end = move_up(UniqueFd(ready[1]));
  if (::pipe2(errors, O_CLOEXEC) != 0) return fail(ErrorCode::io_error, why("pipe2"));
  stderr_.reset(errors[0]);
  const UniqueFd stderr_end = move_up(UniqueFd(errors[1]));
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, lifeline) != 0)
    return fail(ErrorCode::io_error, why("socketpair"));
  lifeline_ = move_up(UniqueFd(lifeline[0]));
  HostLifelines::all().add(lifeline_.get());
  const UniqueFd lifeline_end = move_up(UniqueFd(lifeline[1]));
  const UniqueFd null = move_up(UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC)));
  if (!ready_end || !stderr_end || !lifeline_end || !null)
    return fail(ErrorCode::io_error, why("fcntl"));
  ::fcntl(ready_.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(stderr_.get(), F_SETFL, O_NONBLOCK);

  SpawnActions actions;
  posix_spawn_file_actions_adddup2(&actions.files, null.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions.files, stderr_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions.files, stderr_end.get(), STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions.files, ready_end.get(), kReadyFd);
  posix_spawn_file_actions_adddup2(&actions.files, lifeline_end.get(), kLifelineFd);
  posix_spawn_file_actions_addclosefrom_np(&actions.files, kLifelineFd + 1);
  std::vector<std::string> words{program,         "host",
                                 "--ready-fd",    std::to_string(kReadyFd),
                                 "--lifeline-fd", std::to_string(kLifelineFd),
                                 "--quiet"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return spawn_with(actions, std::move(words));
}

Result<void> LaunchedHost::spawn_command(const std::vector<std::string>& command) {
  int out[2];
  int errors[2];
  int in[2];
  if (::pipe2(out, O_CLOEXEC) != 0) return fail(ErrorCode::io_error, why("pipe2"));
  ready_.reset(out[0]);
  const UniqueFd out_end = move_up(UniqueFd(out[1]));
  if (::pipe2(errors, O_CLOEXEC) != 0) return fail(ErrorCode::io_error, why("pipe2"));
  stderr_.reset(errors[0]);
  const UniqueFd stderr_end = move_up(UniqueFd(errors[1]));
  // No pipe: writing into one that nobody reads would be a signal.
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0)
    return fail(ErrorCode::io_error, why("socketpair"));
  lifeline_ = move_up(UniqueFd(in[0]));
  HostLifelines::all().add(lifeline_.get());
  const UniqueFd in_end = move_up(UniqueFd(in[1]));
  if (!out_end || !stderr_end || !in_end) return fail(ErrorCode::io_error, why("fcntl"));
  ::fcntl(ready_.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(stderr_.get(), F_SETFL, O_NONBLOCK);
  SpawnActions actions;
  posix_spawn_file_actions_adddup2(&actions.files, in_end.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions.files, out_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions.files, stderr_end.get(), STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions.files, STDERR_FILENO + 1);
  return spawn_with(actions, command);
}

Result<void> LaunchedHost::spawn_with(SpawnActions& actions, std::vector<std::string> words) {
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&actions.attributes, &none);
  posix_spawnattr_setsigdefault(&actions.attributes, &all);
  // A session of its own: Ctrl-C at the launcher's terminal is for the launcher, which then ends
  // its hosts in order.
  posix_spawnattr_setflags(&actions.attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int error = posix_spawnp(&pid_, words.front().c_str(), &actions.files, &actions.attributes,
                                 argv.data(), environ);
  if (error != 0)
    return fail(ErrorCode::configuration_error,
                "cannot execute " + words.front() + ": " + std::strerror(error));
  pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!pidfd_) return fail(ErrorCode::io_error, why("pidfd_open"));
  return {};
}

LaunchedHost::~LaunchedHost() {
  close_lifeline();
  if (is_reaped_ || !pidfd_) return;
  if (reap()) return;
  // It ends within two seconds; nobody waits for it, but somebody has to reap it.
  start_masked_thread([pidfd = std::move(pidfd_)] {
    siginfo_t info;
    while (::waitid(P_PIDFD, static_cast<id_t>(pidfd.get()), &info, WEXITED) != 0 &&
           errno == EINTR) {
    }
  }).detach();
}

void LaunchedHost::read_ready() {
  const bool is_open = read_lines();
  const auto line = next_line();
  if (!is_open || line) ready_.reset();
  if (!line) {
    if (!is_open && problem_.empty()) problem_ = "it ended without a word";
    return;
  }
  if (const auto taken = take_announcement(*line); !taken) problem_ = taken.error().detail();
}

bool LaunchedHost::read_lines() {
  return read_available(ready_.get(), ready_text_, kReadyBytes);
}

std::optional<std::string> LaunchedHost::next_line() {
  const auto line_end = ready_text_.find('\n');
  if (line_end == std::string::npos) {
    // Whatever that is, it is none of ours.
    if (ready_text_.size() >= kReadyBytes) ready_text_.clear();
    return std::nullopt;
  }
  auto line = ready_text_.substr(0, line_end);
  ready_text_.erase(0, line_end + 1);
  return line;
}

Result<void> LaunchedHost::take_announcement(const std::string& line) {
  auto announcement = HostAnnouncement::parse(line);
  if (!announcement) return fail(announcement.error());
  announcement_ = std::move(*announcement);
  return {};
}

bool LaunchedHost::read_stderr() {
  const bool is_open = read_available(stderr_.get(), stderr_tail_, kTailBytes * 4);
  if (stderr_tail_.size() > kTailBytes) stderr_tail_.erase(0, stderr_tail_.size() - kTailBytes);
  return is_open;
}

bool LaunchedHost::reap() {
  siginfo_t info{};
  if (::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG) != 0) {
    // The launcher reaps children that it does not know: then only the pidfd says that it has
    // ended.
    if (errno != ECHILD) return false;
    how_ = "ended";
  } else if (info.si_pid == 0) {
    return false;
  } else if (info.si_code == CLD_EXITED) {
    how_ = "exit " + std::to_string(info.si_status);
  } else {
    how_ = "killed by " + signal_name(info.si_status);
  }
  const std::lock_guard lock(mutex_);
  is_reaped_ = true;
  return true;
}

std::string LaunchedHost::last_words() const {
  auto words = stderr_tail_;
  while (!words.empty() && (words.back() == '\n' || words.back() == '\r')) words.pop_back();
  return words;
}

std::string LaunchedHost::quoted_last_words() const {
  const auto words = last_words();
  return words.empty() ? "" : "; its last words: " + words;
}

Result<std::shared_ptr<LaunchedHost>> LaunchedHost::start_command(
    const std::vector<std::string>& command) {
  std::shared_ptr<LaunchedHost> host(new LaunchedHost());
  if (auto spawned = host->spawn_command(command); !spawned) return fail(spawned.error());
  return host;
}

Result<void> LaunchedHost::send(const std::string& text) {
  const std::lock_guard lock(mutex_);
  for (std::size_t sent = 0; sent < text.size();) {
    const auto count =
        ::send(lifeline_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return fail(ErrorCode::io_error, why("send"));
    sent += static_cast<std::size_t>(count);
  }
  return {};
}

Result<void> LaunchedHost::release() {
  return send(std::string(kLifelineRelease));
}

void LaunchedHost::read_words() {
  if (stderr_ && !read_stderr()) stderr_.reset();
}

std::string LaunchedHost::end_within(std::chrono::milliseconds limit) {
  pollfd ended{pidfd_.get(), POLLIN, 0};
  ::poll(&ended, 1, static_cast<int>(limit.count()));
  if (!is_reaped_) reap();
  read_words();
  return how_;
}

void LaunchedHost::watch(Reactor& reactor, std::function<void(const Exit&)> on_exit) {
  if (stderr_) {
    reactor.watch(stderr_.get(), EPOLLIN, [self = shared_from_this(), &reactor](std::uint32_t) {
      if (self->read_stderr()) return;
      const auto keep = self;  // the watch, which is forgotten here, owns what is captured
      reactor.forget(keep->stderr_.get());
      keep->stderr_.reset();
    });
  }
  reactor.watch(pidfd_.get(), EPOLLIN,
                [self = shared_from_this(), &reactor, told = std::move(on_exit)](std::uint32_t) {
                  self->on_exit(reactor, told);
                });
}

void LaunchedHost::on_exit(Reactor& reactor, const std::function<void(const Exit&)>& told) {
  if (!reap()) return;
  const auto self =
      shared_from_this();  // the watch, which is forgotten here, may be the last owner
  const auto tell = told;
  if (stderr_) {
    reactor.forget(stderr_.get());
    read_stderr();
    stderr_.reset();
  }
  reactor.forget(pidfd_.get());
  tell({"its process (pid " + std::to_string(pid_) + ") ended: " + how_ + quoted_last_words(),
        has_ended_in_order()});
}

bool LaunchedHost::has_ended_in_order() {
  const std::lock_guard lock(mutex_);
  return is_told_ || how_ == "exit 0";
}

void LaunchedHost::close_lifeline() {
  const std::lock_guard lock(mutex_);
  is_told_ = true;
  if (!lifeline_) return;
  HostLifelines::all().remove(lifeline_.get());
  lifeline_.reset();
}

void LaunchedHost::kill() {
  const std::lock_guard lock(mutex_);
  if (!is_reaped_) ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
}

}  // namespace meshbus
