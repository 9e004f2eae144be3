#include "agent/host/hands/exec_input.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace meshbus::host {
namespace {

/// Bytes of one request.
constexpr std::size_t kMostInput = 1 << 20;

}  // namespace

ExecInput::~ExecInput() {
  if (pipe_) reactor_.forget(pipe_.get());
}

void ExecInput::attach(UniqueFd pipe) {
  if (is_closed_) return;
  pipe_ = std::move(pipe);
  push();
}

void ExecInput::write(std::uint64_t offset, Bytes data, bool end, Done done) {
  if (is_closed_) return done(fail(ErrorCode::not_exist, "its stdin is closed"));
  if (data.size() > kMostInput)
    return done(fail(ErrorCode::too_large, "input of " + std::to_string(data.size()) +
                                               " bytes; at most " + std::to_string(kMostInput)));
  if (offset > taken_)
    return done(fail(ErrorCode::out_of_range, "input before " + std::to_string(offset) +
                                                  " is missing: there are " +
                                                  std::to_string(taken_) + " bytes"));
  const auto known = std::min<std::uint64_t>(taken_ - offset, data.size());
  data.remove_prefix(static_cast<std::size_t>(known));
  if (done_ && !data.empty())
    return done(fail(ErrorCode::refused, "other input is still on its way; send one at a time"));
  if (done_) finish(fail(ErrorCode::refused, "the same input has come again"));
  done_ = std::move(done);
  taken_ += data.size();
  // An end that comes again, because its answer was lost, is none.
  const bool is_first_end = end && !std::exchange(is_ended_, is_ended_ || end);
  if (is_terminal_) {
    os::add_terminal_input(pending_, data);
    if (is_first_end) os::add_terminal_record(pending_, os::TerminalRecord::end_of_file, {});
  } else {
    pending_.append(data);
  }
  push();
}

void ExecInput::resize(const os::TerminalSize& size) {
  if (is_closed_ || !is_terminal_) return;
  next_size_ = size;
  push();
}

void ExecInput::push() {
  if (!pipe_) return;
  while (true) {
    // Between two records, and the latest one only: sizes cannot pile up.
    if (pending_.empty() && next_size_)
      os::add_terminal_size(pending_, *std::exchange(next_size_, std::nullopt));
    if (pending_.empty()) break;
    const auto n = ::write(pipe_.get(), pending_.data(), pending_.size());
    if (n > 0) {
      pending_.erase(0, static_cast<std::size_t>(n));
    } else if (n == 0 || errno == EAGAIN) {
      reactor_.watch(pipe_.get(), EPOLLOUT, [this](std::uint32_t) { push(); });
      return;
    } else if (errno != EINTR) {
      return close(std::string("it does not read its stdin: ") + std::strerror(errno));
    }
  }
  reactor_.forget(pipe_.get());
  finish({});
  if (is_ended_ && !is_terminal_) close({});
}

void ExecInput::close(const std::string& why) {
  if (std::exchange(is_closed_, true)) return;
  pending_ = {};
  if (pipe_) reactor_.forget(pipe_.get());
  pipe_.reset();
  finish(fail(ErrorCode::not_exist, why));
  on_closed_();
}

void ExecInput::finish(Result<void> how) {
  if (const auto done = std::exchange(done_, nullptr)) done(std::move(how));
}

}  // namespace meshbus::host
