#include "agent/hands/terminal_run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "agent/hands/carrier.h"
#include "common/base/exit_codes.h"
#include "common/base/unique_fd.h"

namespace meshbus::hands {
namespace {

/// What the command has written just before its end comes out of the terminal a moment later.
constexpr int kRestMs = 100;

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "meshbus: a terminal: %s: %s\n", what, std::strerror(errno));
  ::_exit(exits::kOwnFailure);
}

void set_size(int terminal, const os::TerminalSize& size) {
  if (size.rows == 0 && size.columns == 0) return;
  winsize window{};
  window.ws_row = size.rows;
  window.ws_col = size.columns;
  ::ioctl(terminal, TIOCSWINSZ, &window);
}

sigset_t our_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGHUP, SIGTERM, SIGINT, SIGQUIT}) sigaddset(&signals, signal);
  return signals;
}

class TerminalRun {
 public:
  TerminalRun(const RankPlace& place, const Command& command, os::TerminalSize size);
  int run();

 private:
  [[noreturn]] void be_child(const RankPlace& place, const Command& command, UniqueFd terminal);
  void take_records();
  void on_signals();
  void hang_up();
  void reap();
  bool has_ended() const noexcept { return child_ == 0; }

  UniqueFd master_;
  UniqueFd signals_;
  pid_t child_ = -1;
  int status_ = 0;
  os::TerminalRecords records_;
  Carrier input_{-1, -1};
  Carrier output_{-1, -1};
  bool is_input_over_ = false;
};

TerminalRun::TerminalRun(const RankPlace& place, const Command& command, os::TerminalSize size) {
  master_ = UniqueFd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  if (!master_) give_up("/dev/ptmx");
  if (::grantpt(master_.get()) != 0 || ::unlockpt(master_.get()) != 0) give_up("unlockpt");
  UniqueFd terminal(::ioctl(master_.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!terminal) give_up("TIOCGPTPEER");
  termios modes{};
  if (::tcgetattr(terminal.get(), &modes) == 0) {
    modes.c_iflag |= IUTF8;
    ::tcsetattr(terminal.get(), TCSANOW, &modes);
  }
  set_size(master_.get(), size);
  // As login does it. The terminal works without it, too.
  if (place.user() != ::geteuid()) ::fchown(terminal.get(), place.user(), static_cast<gid_t>(-1));
  const sigset_t signals = our_signals();
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  signals_ = UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) give_up("signalfd");
  ::signal(SIGPIPE, SIG_IGN);
  child_ = ::fork();
  if (child_ < 0) give_up("fork");
  if (child_ == 0) be_child(place, command, std::move(terminal));
  // This end of the terminal needs no more rights than the command has.
  if (const auto done = place.become_user(); !done) {
    std::fprintf(stderr, "meshbus: the place of the rank cannot be taken: %s\n",
                 done.error().detail().c_str());
    ::kill(child_, SIGKILL);
    ::_exit(exits::kOwnFailure);
  }
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
  input_ = Carrier(-1, master_.get());
  output_ = Carrier(master_.get(), STDOUT_FILENO);
}

void TerminalRun::be_child(const RankPlace& place, const Command& command, UniqueFd terminal) {
  const sigset_t signals = our_signals();
  ::signal(SIGPIPE, SIG_DFL);
  ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
  if (::setsid() < 0) give_up("setsid");
  if (::ioctl(terminal.get(), TIOCSCTTY, 0) != 0) give_up("TIOCSCTTY");
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(terminal.get(), fd);
  terminal.reset();
  execute(place, command);
}

void TerminalRun::take_records() {
  std::string piece(os::kMostTerminalBytes, '\0');
  const auto n = ::read(STDIN_FILENO, piece.data(), piece.size());
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  // Only the end of the exec closes it.
  if (n <= 0) return hang_up();
  records_.add(std::string_view(piece).substr(0, static_cast<std::size_t>(n)));
  os::TerminalRecord type{};
  for (std::string_view bytes; records_.next(type, bytes);) {
    switch (type) {
      case os::TerminalRecord::input: input_.push(bytes); break;
      case os::TerminalRecord::size: {
        os::TerminalSize size;
        if (bytes.size() != sizeof size) break;
        std::memcpy(&size, bytes.data(), sizeof size);
        set_size(master_.get(), size);
        break;
      }
      case os::TerminalRecord::end_of_file: {
        termios modes{};
        const bool has_modes = ::tcgetattr(master_.get(), &modes) == 0;
        const char end = has_modes ? static_cast<char>(modes.c_cc[VEOF]) : '\x04';
        input_.push({&end, 1});
        break;
      }
    }
  }
}

void TerminalRun::hang_up() {
  is_input_over_ = true;
  if (child_ > 0) ::kill(-child_, SIGHUP);
}

void TerminalRun::reap() {
  // What the command leaves behind may become ours.
  int status = 0;
  for (pid_t one = 0; (one = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    if (one != child_) continue;
    status_ = status;
    child_ = 0;
  }
}

void TerminalRun::on_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const auto signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      reap();
    } else if (signal == SIGHUP || signal == SIGTERM) {
      hang_up();
    } else if (child_ > 0) {
      ::kill(-child_, signal);
    }
  }
}

int TerminalRun::run() {
  while (true) {
    const bool is_writing = output_.wants_write();
    if (has_ended() && output_.is_at_end() && !is_writing) return status_;
    pollfd fds[] = {
        {signals_.get(), POLLIN, 0},
        {!is_input_over_ && !has_ended() && input_.has_room() ? STDIN_FILENO : -1, POLLIN, 0},
        {master_.get(), 0, 0},
        {is_writing ? STDOUT_FILENO : -1, POLLOUT, 0},
    };
    if (output_.wants_read()) fds[2].events |= POLLIN;
    if (input_.wants_write()) fds[2].events |= POLLOUT;
    // At its end nobody has the terminal open any more.
    if (fds[2].events == 0 || output_.is_at_end()) fds[2].fd = -1;
    const int ready = ::poll(fds, 4, has_ended() && !is_writing ? kRestMs : -1);
    if (ready < 0 && errno != EINTR) give_up("poll");
    // What it has started in the background may keep the terminal open: it ends with us.
    if (ready == 0) return status_;
    if (fds[0].revents != 0) on_signals();
    if (fds[1].revents != 0) take_records();
    if ((fds[2].revents & POLLOUT) != 0) input_.write();
    if ((fds[2].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && output_.wants_read())
      output_.read();
    if (output_.wants_write() && !output_.write()) hang_up();
  }
}

}  // namespace

int run_on_terminal(const RankPlace& place, const Command& command, os::TerminalSize size) {
  TerminalRun run(place, command, size);
  return run.run();
}

}  // namespace meshbus::hands
