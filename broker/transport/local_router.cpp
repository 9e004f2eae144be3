#include "broker/transport/local_router.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "common/base/unix_address.h"

namespace meshbus {
namespace {

constexpr int kBacklog = 4096;
/// Connections that are taken in one turn.
constexpr int kMostAccepted = 256;
/// What is read in one turn, shared by those that have something; each gets the least at any rate.
/// And no more than the most, which is less than a socket takes at once: one who sends is not read
/// faster than one who reads can be sent to.
constexpr std::size_t kTurnBytes = 1024 * 1024;
constexpr std::size_t kLeastShare = 32 * 1024;
constexpr std::size_t kMostShare = 128 * 1024;
/// What a message costs that has few bytes, or none.
constexpr std::size_t kMessageBytes = 512;
/// For a descriptor to become free.
constexpr std::chrono::milliseconds kAcceptAgain{100};

}  // namespace

LocalRouter::LocalRouter(Reactor& reactor, Events events)
    : reactor_(reactor), events_(std::move(events)), share_(kMostShare) {
  turn_end_ = reactor_.add_turn_end([this] {
    share_ = std::clamp(kTurnBytes / std::max<std::size_t>(std::exchange(read_from_, 0), 1),
                        kLeastShare, kMostShare);
    read_ = 0;
  });
}

LocalRouter::~LocalRouter() {
  reactor_.forget_turn_end(turn_end_);
  for (const UniqueFd& listener : listeners_) reactor_.forget(listener.get());
  for (const auto& [id, connection] : connections_)
    reactor_.forget(connection->stream.descriptor());
  linger();
}

void LocalRouter::linger() {
  const auto until = Reactor::Clock::now() + linger_;
  for (;;) {
    std::vector<pollfd> full;
    for (const auto& [id, connection] : connections_) {
      if (!connection->stream.write_on())
        full.push_back({connection->stream.descriptor(), POLLOUT, 0});
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Reactor::Clock::now());
    if (full.empty() || left.count() <= 0) return;
    ::poll(full.data(), full.size(), static_cast<int>(left.count()));
  }
}

void LocalRouter::listen(const std::string& path) {
  const UnixAddress address(path);
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener || ::bind(listener.get(), address.get(), address.size()) != 0 ||
      ::listen(listener.get(), kBacklog) != 0)
    throw std::system_error(errno, std::generic_category());
  watch_listener(listener.get());
  listeners_.push_back(std::move(listener));
}

void LocalRouter::watch_listener(int listener) {
  reactor_.watch(listener, EPOLLIN, [this, listener](std::uint32_t) { accept_all(listener); });
}

void LocalRouter::accept_all(int listener) {
  bool is_any = false;
  for (int i = 0; i < kMostAccepted; ++i) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      // It went away before, or was turned away (accept_gate.h).
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN) accept_later(listener);
      return;
    }
    is_any = true;
    const auto peer = unix_peer_of(fd.get());
    if (!peer || !may_connect(peer->uid, ::geteuid())) {
      limited_log_.warn(
          "a connection to a unix socket is refused: it comes from " +
          (peer ? "user " + std::to_string(peer->uid) + ", pid " + std::to_string(peer->pid)
                : "an unknown user"));
      continue;
    }
    const ConnectionId id = next_++;
    auto made =
        std::make_unique<Connection>(Connection{ZmtpStream(std::move(fd), "ROUTER", buffer_)});
    // A new socket has room for this, unless the other side is gone.
    if (!made->stream.greet()) continue;
    try {
      watch(id, *made, /*for_writing=*/false);
    } catch (const std::system_error& error) {
      log::warn(std::string("a connection is given up: ") + error.what());
      continue;
    }
    const int descriptor = made->stream.descriptor();
    connections_.emplace(id, std::move(made));
    events_.on_accepted(id, descriptor);
  }
  // Whoever is turned away for want of a descriptor may still be the first in line.
  if (!is_any) accept_later(listener);
}

void LocalRouter::accept_later(int listener) {
  reactor_.forget(listener);
  reactor_.after(kAcceptAgain, [this, listener, alive = std::weak_ptr<void>(alive_)] {
    if (!alive.expired()) watch_listener(listener);
  });
}

void LocalRouter::watch(ConnectionId id, Connection& connection, bool for_writing) {
  connection.watches_writing = for_writing;
  reactor_.watch(connection.stream.descriptor(), EPOLLIN | (for_writing ? EPOLLOUT : 0U),
                 [this, id](std::uint32_t events) { on_event(id, events); });
}

void LocalRouter::on_event(ConnectionId id, std::uint32_t events) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  if ((events & EPOLLOUT) != 0 && connection.stream.write_on()) {
    watch(id, connection, /*for_writing=*/false);
    events_.on_writable(id);
  }
  if ((events & ~EPOLLOUT) != 0) read(id, connection);
}

void LocalRouter::read(ConnectionId id, Connection& connection) {
  ++read_from_;
  ZmtpStream& stream = connection.stream;
  const std::size_t share = read_ < kTurnBytes ? share_ : kLeastShare;
  for (std::size_t used = 0; used < share;) {
    const std::size_t asked = std::min(buffer_.size(), share - used);
    const std::size_t count = stream.fill(share - used);
    used += count;
    for (auto next = stream.next(parts_); next != ZmtpStream::Next::none;
         next = stream.next(parts_)) {
      if (next == ZmtpStream::Next::message) {
        used += kMessageBytes;
        events_.on_message(id, parts_);
      }
      parts_.clear();
    }
    read_ += count;
    if (stream.is_ended()) {
      end(id);
      return;
    }
    // The answer to a heartbeat may wait for room.
    if (stream.has_left_over() && !connection.watches_writing)
      watch(id, connection, /*for_writing=*/true);
    // Should there be more after all, we are called again.
    if (count < asked) return;
  }
}

void LocalRouter::end(ConnectionId id) {
  const auto node = connections_.extract(id);
  const ZmtpStream& stream = node.mapped()->stream;
  reactor_.forget(stream.descriptor());
  events_.on_ended(id, stream);
}

LocalRouter::Sent LocalRouter::send(ConnectionId to, Frame& frame) {
  const auto found = connections_.find(to);
  if (found == connections_.end()) return Sent::gone;
  Connection& connection = *found->second;
  if (linger_.count() > 0) {
    connection.stream.send_behind(frame);
  } else if (!connection.stream.send(frame)) {
    return Sent::full;
  }
  if (connection.stream.has_left_over() && !connection.watches_writing)
    watch(to, connection, /*for_writing=*/true);
  return Sent::yes;
}

void LocalRouter::send_behind(ConnectionId to, Frame& frame) {
  const auto found = connections_.find(to);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  connection.stream.send_behind(frame);
  if (connection.stream.has_left_over() && !connection.watches_writing)
    watch(to, connection, /*for_writing=*/true);
}

int LocalRouter::descriptor_of(ConnectionId id) const {
  const auto found = connections_.find(id);
  return found == connections_.end() ? -1 : found->second->stream.descriptor();
}

std::optional<UnixPeer> LocalRouter::process_of(ConnectionId id) const {
  return unix_peer_of(descriptor_of(id));
}

}  // namespace meshbus
