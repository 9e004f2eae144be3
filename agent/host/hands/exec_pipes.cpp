#include "agent/host/hands/exec_pipes.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace meshbus::host {
namespace {

constexpr std::size_t kExecPiece = 64 * 1024;

}  // namespace

ExecPipes::~ExecPipes() {
  for (const Pipe* pipe : {&out_, &err_}) {
    if (pipe->is_watched) reactor_.forget(pipe->fd.get());
  }
}

void ExecPipes::attach(UniqueFd out, UniqueFd err) {
  out_.fd = std::move(out);
  err_.fd = std::move(err);
  read_on();
}

void ExecPipes::discard() {
  is_discarding_ = true;
  read_on();
}

void ExecPipes::read_on() {
  for (Pipe* pipe : {&out_, &err_}) {
    const bool is_wanted = pipe->fd && !pipe->is_ended && (output_.wants_more() || is_discarding_);
    if (is_wanted == pipe->is_watched) continue;
    pipe->is_watched = is_wanted;
    if (is_wanted)
      reactor_.watch(pipe->fd.get(), EPOLLIN, [this, pipe](std::uint32_t) { read(*pipe); });
    else
      reactor_.forget(pipe->fd.get());
  }
}

void ExecPipes::read(Pipe& pipe) {
  std::array<char, kExecPiece> piece;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const auto n = ::read(pipe.fd.get(), piece.data(), piece.size());
  if (n > 0) {
    take(pipe, {piece.data(), static_cast<std::size_t>(n)});
  } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
    pipe.is_ended = true;
    output_.end(pipe.stream);
  }
  read_on();
  on_news_();
}

void ExecPipes::take(const Pipe& pipe, Bytes bytes) {
  if (!is_discarding_) output_.add(pipe.stream, bytes);
}

void ExecPipes::read_rest(const Pipe& pipe) {
  // No more than that: others may go on writing.
  int left = 0;
  if (!pipe.fd || ::ioctl(pipe.fd.get(), FIONREAD, &left) != 0) return;
  std::array<char, kExecPiece> piece;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  while (left > 0) {
    const auto n =
        ::read(pipe.fd.get(), piece.data(), std::min(piece.size(), static_cast<std::size_t>(left)));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    take(pipe, {piece.data(), static_cast<std::size_t>(n)});
    left -= static_cast<int>(n);
  }
}

void ExecPipes::finish() {
  for (Pipe* pipe : {&out_, &err_}) {
    if (std::exchange(pipe->is_ended, true)) continue;
    read_rest(*pipe);
    output_.end(pipe->stream);
  }
  read_on();
  on_news_();
}

}  // namespace meshbus::host
