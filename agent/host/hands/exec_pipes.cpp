#include "agent/host/hands/exec_pipes.h"

#include <unistd.h>

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
    if (!is_discarding_) output_.add(pipe.stream, {piece.data(), static_cast<std::size_t>(n)});
  } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
    pipe.is_ended = true;
    output_.end(pipe.stream);
  }
  read_on();
  on_news_();
}

}  // namespace meshbus::host
