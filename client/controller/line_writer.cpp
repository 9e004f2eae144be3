#include "client/controller/line_writer.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace meshbus {

LineWriter::LineWriter(Reactor& reactor, int fd, std::size_t limit,
                       std::function<std::string(std::uint64_t)> on_lost,
                       std::function<void()> on_closed)
    : reactor_(reactor),
      fd_(fd),
      limit_(limit),
      on_lost_(std::move(on_lost)),
      on_closed_(std::move(on_closed)) {}

void LineWriter::write(std::string_view line) {
  if (is_closed_) return;
  if (waiting_.size() + line.size() > limit_) {
    ++lost_;
    return;
  }
  if (lost_ != 0) {
    waiting_ += on_lost_(lost_) + "\n";
    lost_ = 0;
  }
  waiting_.append(line).push_back('\n');
  flush();
}

void LineWriter::flush() {
  std::size_t done = 0;
  while (!is_closed_ && done < waiting_.size()) {
    // The descriptor is shared with others, so its flags are left alone: a pipe that poll calls
    // writable takes PIPE_BUF bytes without blocking.
    pollfd ready{fd_, POLLOUT, 0};
    if (::poll(&ready, 1, 0) <= 0) break;
    const auto count = ::write(fd_, waiting_.data() + done,
                               std::min<std::size_t>(waiting_.size() - done, PIPE_BUF));
    if (count > 0) {
      done += static_cast<std::size_t>(count);
    } else if (errno != EINTR && errno != EAGAIN) {
      is_closed_ = true;
      on_closed_();
    }
  }
  waiting_.erase(0, done);
  if (is_closed_) waiting_.clear();
  if (waiting_.empty() || timer_ != 0) return;
  timer_ = reactor_.after(std::chrono::milliseconds(10), [this] {
    timer_ = 0;
    flush();
  });
}

}  // namespace meshbus
