#include "common/http/http_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>
#include <variant>

namespace meshbus::http {
namespace {

constexpr std::size_t kReadSize = 16 * 1024;
/// One turn writes at most so much for one connection.
constexpr std::size_t kWriteSize = 256 * 1024;

}  // namespace

HttpConnection::HttpConnection(UniqueFd socket, const Limits& limits, Time now)
    : socket_(std::move(socket)), limits_(limits), deadline_(now + limits.reading) {}

void HttpConnection::enter(Phase phase, std::optional<Time> deadline) {
  phase_ = phase;
  deadline_ = deadline;
}

std::uint32_t HttpConnection::interest() const noexcept {
  switch (phase_) {
    case Phase::reading:
    case Phase::lingering: return EPOLLIN;
    case Phase::answering: return 0;
    case Phase::writing: return EPOLLOUT;
    case Phase::streaming: return output_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT;
    case Phase::ended: break;
  }
  return 0;
}

bool HttpConnection::discard() {
  std::array<char, kReadSize> ignored;
  const auto got = ::recv(fd(), ignored.data(), ignored.size(), MSG_DONTWAIT);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

std::optional<HttpRequest> HttpConnection::on_readable(Time now) {
  if (phase_ != Phase::reading) {
    // A peer that shuts down its writing end may still read a response.
    if (phase_ == Phase::writing) return std::nullopt;
    if (phase_ == Phase::answering || !discard()) end();
    return std::nullopt;
  }
  std::array<char, kReadSize> buffer;
  const auto got = ::recv(fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (got <= 0) {
    end();
    return std::nullopt;
  }
  input_.append(buffer.data(), static_cast<std::size_t>(got));
  auto parsed = HttpParser(limits_.request).parse(input_);
  if (std::holds_alternative<HttpParser::Unfinished>(parsed)) return std::nullopt;
  std::string().swap(input_);
  enter(Phase::answering, std::nullopt);
  if (const auto* refusal = std::get_if<HttpResponse>(&parsed)) {
    answer(*refusal, now);
    return std::nullopt;
  }
  auto& request = std::get<HttpRequest>(parsed);
  is_head_ = request.method == "HEAD";
  return std::move(request);
}

void HttpConnection::answer(const HttpResponse& response, Time now) {
  if (phase_ != Phase::answering) return;
  const std::size_t length = response.body.size();
  output_ = write_head(response, &length);
  if (!is_head_) output_ += response.body;
  enter(Phase::writing, now + limits_.writing);
  flush(now);
}

void HttpConnection::begin_stream(const HttpResponse& response, Time now) {
  if (phase_ != Phase::answering) return;
  output_ = write_head(response, nullptr) + response.body;
  enter(Phase::streaming, now + limits_.writing);
  flush(now);
}

bool HttpConnection::write(std::string_view bytes, Time now) {
  if (phase_ != Phase::streaming) return false;
  if (output_.size() - written_ + bytes.size() > limits_.stream) {
    end();
    return false;
  }
  if (output_.empty()) deadline_ = now + limits_.writing;
  output_ += bytes;
  flush(now);
  return phase_ == Phase::streaming;
}

void HttpConnection::on_writable(Time now) {
  flush(now);
}

void HttpConnection::flush(Time now) {
  if (phase_ != Phase::writing && phase_ != Phase::streaming) return;
  std::size_t room = kWriteSize;
  while (written_ < output_.size() && room > 0) {
    const std::size_t size = std::min(room, output_.size() - written_);
    const auto sent = ::send(fd(), output_.data() + written_, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent <= 0) return end();
    written_ += static_cast<std::size_t>(sent);
    room -= static_cast<std::size_t>(sent);
    deadline_ = now + limits_.writing;
  }
  if (written_ < output_.size()) {
    // Seldom: the rest is moved.
    if (written_ < output_.size() / 2) return;
    output_.erase(0, written_);
    written_ = 0;
    return;
  }
  std::string().swap(output_);  // A first view may have been large.
  written_ = 0;
  if (phase_ == Phase::streaming) {
    deadline_.reset();
    return;
  }
  // A close now would throw away what the peer has not read if it has sent more than we read.
  ::shutdown(fd(), SHUT_WR);
  enter(Phase::lingering, now + limits_.lingering);
}

void HttpConnection::on_deadline() {
  end();
}

}  // namespace meshbus::http
