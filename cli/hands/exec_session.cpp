#include "cli/hands/exec_session.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "cli/support/exit_codes.h"
#include "cli/support/text_error.h"

namespace meshbus::cli {
namespace {

constexpr std::size_t kInputPiece = 64 * 1024;
/// What the commands get to end in once they are told to; the host kills them after 2 s.
constexpr std::chrono::seconds kHangUpWait{5};

}  // namespace

ExecSession::ExecSession(HandSignals& signals, Options options)
    : signals_(signals), options_(options) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat status{};
    is_file_[static_cast<std::size_t>(fd)] = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    is_escaped_[static_cast<std::size_t>(fd)] = options.are_lines_escaped && ::isatty(fd) != 0;
  }
  is_input_over_ = !options_.has_input;
}

void ExecSession::add(RankExec exec, const HandRank& rank, std::string name,
                      const std::string& prefix) {
  const auto lines = [&](bool is_err) {
    if (!options_.is_json) return LineBuffer(prefix);
    return LineBuffer(
        [rank, is_err](std::string_view line) { return line_json(rank, is_err, line); });
  };
  members_.push_back(std::make_unique<Member>(
      Member{std::move(exec), rank, std::move(name), lines(false), lines(true)}));
}

void ExecSession::add_failed(const HandRank& rank, const std::string& name, const Error& error) {
  complain(name + ": " + error.to_string());
  if (options_.is_json) ends_ += end_json(rank, fail(error));
  note_code(error.code() == ErrorCode::host_unreachable ? kHostLost : kOwnFailure);
}

void ExecSession::note_code(int code) {
  code_ = std::max(code_, code);
}

bool ExecSession::is_over() const {
  return std::all_of(members_.begin(), members_.end(),
                     [](const auto& member) { return member->is_over; });
}

bool ExecSession::may_read() const {
  return !is_input_over_ && !members_.empty() &&
         std::all_of(members_.begin(), members_.end(), [](const auto& member) {
           const auto& news = member->exec.news();
           return member->is_over || news.is_input_closed() || news.may_write();
         });
}

int ExecSession::run() {
  while (!is_over()) {
    // The terminal becomes theirs with the first sign of the command.
    if (options_.has_terminal && !terminal_ && members_.front()->exec.news().is_started())
      terminal_.emplace();
    std::vector<pollfd> fds = {
        {signals_.fd(), POLLIN, 0},
        {may_read() ? STDIN_FILENO : -1, POLLIN, 0},
        {outgoing_[STDOUT_FILENO].member != nullptr ? STDOUT_FILENO : -1, POLLOUT, 0},
        {outgoing_[STDERR_FILENO].member != nullptr ? STDERR_FILENO : -1, POLLOUT, 0},
    };
    for (const auto& member : members_)
      fds.push_back({member->is_over ? -1 : member->exec.news().fd(), POLLIN, 0});
    const int ready = ::poll(fds.data(), fds.size(), time_left());
    if (ready < 0 && errno != EINTR) break;
    if (deadline_ && Clock::now() >= *deadline_) break;
    if (fds[0].revents != 0) on_signals();
    if (fds[1].revents != 0) read_input();
    for (const std::size_t fd : {std::size_t{STDOUT_FILENO}, std::size_t{STDERR_FILENO}}) {
      if (fds[fd + 1].revents != 0) write(fd);
    }
    for (const auto& member : members_) {
      if (!member->is_over) take_news(*member);
    }
  }
  terminal_.reset();
  write_ends();
  if (ended_by_) return by_signal(*ended_by_);
  if (broken_by_ == 0) return code_;
  return broken_by_ == EPIPE ? kBrokenPipe : kOwnFailure;
}

int ExecSession::time_left() const {
  if (!deadline_) return -1;
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(*deadline_ - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(0, left.count()));
}

void ExecSession::write_ends() {
  // We left in the midst of a line.
  if (outgoing_[STDOUT_FILENO].member != nullptr) return;
  // All commands have ended: a signal has nobody to go to, and ends the wait for a reader.
  std::size_t at = 0;
  while (at < ends_.size() && broken_by_ == 0) {
    std::array<pollfd, 2> fds = {{{signals_.fd(), POLLIN, 0}, {STDOUT_FILENO, POLLOUT, 0}}};
    const int ready = ::poll(fds.data(), fds.size(), time_left());
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return;
    if (fds[0].revents != 0) {
      while (const auto signal = signals_.next()) {
        if (*signal == SIGWINCH) continue;
        ended_by_ = signal;
        return;
      }
    }
    if (fds[1].revents == 0) continue;
    // A pipe that is ready takes so much without blocking.
    const auto n = ::write(STDOUT_FILENO, ends_.data() + at,
                           std::min<std::size_t>(ends_.size() - at, PIPE_BUF));
    if (n >= 0) {
      at += static_cast<std::size_t>(n);
    } else if (errno != EINTR && errno != EAGAIN) {
      on_broken(errno);
    }
  }
}

void ExecSession::on_signals() {
  while (const auto signal = signals_.next()) {
    if (*signal == SIGWINCH) {
      const auto size = terminal_size();
      if (options_.has_terminal && size) members_.front()->exec.resize(size->first, size->second);
    } else if (*signal == SIGQUIT) {
      for (const auto& member : members_) member->exec.signal(SIGQUIT);
    } else if (*signal == SIGINT && interrupts_++ == 0) {
      for (const auto& member : members_) member->exec.signal(SIGINT);
    } else {
      on_end_signal(*signal);
    }
  }
}

void ExecSession::on_end_signal(int signal) {
  // Told again: their hosts end them, whether we wait or not.
  const bool is_again = ended_by_.has_value();
  ended_by_ = signal;
  hang_up_all();
  if (is_again) deadline_ = Clock::now();
}

void ExecSession::hang_up_all() {
  for (const auto& member : members_) {
    if (!member->is_over) member->exec.hang_up();
  }
  if (!deadline_) deadline_ = Clock::now() + kHangUpWait;
}

void ExecSession::read_input() {
  std::string bytes(kInputPiece, '\0');
  const auto n = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  // An error (a terminal that we may not read in the background, say) is the end of input like any
  // other.
  bytes.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
  is_input_over_ = n <= 0;
  for (const auto& member : members_) {
    if (!member->is_over && !member->exec.news().is_input_closed())
      member->exec.write(bytes, is_input_over_);
  }
}

void ExecSession::take_news(Member& member) {
  const auto& news = member.exec.news();
  news.clear();
  // One that closes its stdin keeps nothing from the others.
  if (std::all_of(members_.begin(), members_.end(), [](const auto& one) {
        return one->is_over || one->exec.news().is_input_closed();
      }))
    is_input_over_ = true;
  // What is being written comes first, and no stream overtakes itself.
  const auto is_busy = [&] {
    return std::any_of(outgoing_.begin(), outgoing_.end(),
                       [](const Outgoing& one) { return one.member != nullptr; });
  };
  while (!is_busy()) {
    auto piece = member.exec.news().take();
    if (!piece) break;
    queue(member, std::move(*piece));
  }
  if (is_busy()) return;
  if (const auto end = news.end()) finish(member, *end);
}

void ExecSession::queue(Member& member, ExecPiece piece) {
  const std::size_t fd = piece.is_err && !options_.is_json ? STDERR_FILENO : STDOUT_FILENO;
  LineBuffer& lines = piece.is_err ? member.err : member.out;
  std::string bytes = lines.add(piece.bytes);
  if (piece.is_end) bytes += lines.rest();
  if (is_escaped_[fd]) bytes = shown_lines(bytes);
  if (bytes.empty() || broken_by_ != 0) return member.exec.taken(piece.sequence);
  outgoing_[fd] = {std::move(bytes), 0, &member, piece.sequence};
  write(fd);
}

void ExecSession::write(std::size_t fd) {
  Outgoing& out = outgoing_[fd];
  while (out.member != nullptr) {
    pollfd ready{static_cast<int>(fd), POLLOUT, 0};
    if (!is_file_[fd] && ::poll(&ready, 1, 0) == 0) return;
    // A pipe that is ready takes so much without blocking.
    const auto left = out.bytes.size() - out.at;
    const auto n = ::write(static_cast<int>(fd), out.bytes.data() + out.at,
                           is_file_[fd] ? left : std::min<std::size_t>(left, PIPE_BUF));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) {
      on_broken(errno);
    } else {
      out.at += static_cast<std::size_t>(n);
    }
    if (n >= 0 && out.at < out.bytes.size()) continue;
    out.member->exec.taken(out.sequence);
    out = {};
  }
}

void ExecSession::on_broken(int error) {
  // Nobody reads any more: this is as if SIGPIPE had come.
  if (broken_by_ == 0 && error != EPIPE)
    complain(std::string("the output cannot be written: ") + std::strerror(error));
  if (broken_by_ == 0) broken_by_ = error;
  hang_up_all();
}

void ExecSession::finish(Member& member, const Result<ExecEnd>& end) {
  member.is_over = true;
  if (is_over()) terminal_.reset();
  if (!end) return add_failed(member.rank, member.name, end.error());
  if (options_.is_json) ends_ += end_json(member.rank, end);
  if (!end->reason.empty() && !ended_by_ && broken_by_ == 0)
    complain(member.name + ": the command was ended: " + end->reason);
  note_code(end->signal != 0 ? by_signal(end->signal) : end->code);
}

}  // namespace meshbus::cli
