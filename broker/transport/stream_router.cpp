#include "broker/transport/stream_router.h"

#include <poll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "common/base/own_pause.h"
#include "common/zmtp/curve_server.h"
#include "common/zmtp/null_mechanism.h"

namespace meshbus {
namespace {

constexpr std::string_view kSocketType = "ROUTER";
/// What a message costs that has few bytes, or none.
constexpr std::size_t kMessageBytes = 512;
/// So many connections wait for a judgement that takes a while.
constexpr std::size_t kMostAsking = 1024;
constexpr std::chrono::milliseconds kLookAtTcp{250};
/// The kernel does not tell when the last bytes have arrived.
constexpr std::chrono::milliseconds kLookAtArrival{2};
/// A look that is later than this means that this process was stopped, or starved.
constexpr OwnPause kOwnPause(std::chrono::milliseconds(750));

}  // namespace

StreamRouter::StreamRouter(Reactor& reactor, Limits limits, Events events)
    : reactor_(reactor),
      limits_(limits),
      events_(std::move(events)),
      acceptor_(reactor, limits.gate,
                [this](UniqueFd fd, const std::optional<TcpAddress>& from) {
                  on_connection(std::move(fd), from);
                }),
      pool_(limits.pool),
      key_shares_(limits.key) {
  turn_end_ = reactor_.add_turn_end([this] { shares_.end_turn(); });
}

StreamRouter::~StreamRouter() {
  reactor_.forget_turn_end(turn_end_);
  reactor_.cancel(turns_timer_);
  reactor_.cancel(look_timer_);
  for (const auto& [id, connection] : connections_)
    reactor_.forget(connection->stream.descriptor());
  linger();
}

void StreamRouter::linger() {
  const auto until = Reactor::Clock::now() + linger_;
  for (;;) {
    std::vector<pollfd> full;
    bool is_arriving = false;
    for (const auto& [id, connection] : connections_) {
      if (!connection->stream.write_on()) {
        full.push_back({connection->stream.descriptor(), POLLOUT, 0});
      } else if (linger_.count() > 0 && connection->remote && !connection->stream.has_arrived()) {
        is_arriving = true;
      }
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Reactor::Clock::now());
    if ((full.empty() && !is_arriving) || left.count() <= 0) return;
    ::poll(full.data(), full.size(),
           static_cast<int>((is_arriving ? std::min(left, kLookAtArrival) : left).count()));
  }
}

std::unique_ptr<StreamRouter::Connection> StreamRouter::make_connection(UniqueFd fd, bool is_tcp) {
  std::unique_ptr<Mechanism> mechanism;
  if (is_tcp && keys_) {
    mechanism = std::make_unique<CurveServer>(*keys_, kSocketType);
  } else {
    mechanism = std::make_unique<NullMechanism>(kSocketType);
  }
  return std::make_unique<Connection>(
      Connection{ZmtpStream(std::move(fd), std::move(mechanism), buffer_)});
}

void StreamRouter::on_connection(UniqueFd fd, const std::optional<TcpAddress>& from) {
  const bool is_tcp = from.has_value();
  if (is_tcp && tcp_.size() >= limits_.connections && !make_room()) return;
  const ConnectionId id = (is_tcp ? kTcp : 0) + next_++;
  auto made = make_connection(std::move(fd), is_tcp);
  // A new socket has room for this, unless the other end is gone.
  if (is_tcp) set_tcp_options(made->stream.descriptor());
  if (!made->stream.greet()) return;
  try {
    watch(id, *made, EPOLLIN);
  } catch (const std::system_error& error) {
    log::warn(std::string("a connection is given up: ") + error.what());
    return;
  }
  Connection& connection = *connections_.emplace(id, std::move(made)).first->second;
  if (is_tcp) {
    const auto now = reactor_.now();
    connection.remote.emplace(
        Remote{from->host(), SilenceWatch(limits_.silence, now), 0, now, now});
    tcp_.emplace(id, &connection);
    if (look_timer_ == 0) {
      look_due_ = now + kLookAtTcp;
      look_timer_ = reactor_.after(kLookAtTcp, [this] { look_at_tcp(); });
    }
    if (const auto evicted = pool_.enter(id, from->network())) crowd_out(*evicted);
  }
  events_.on_accepted(id, connection.stream.descriptor());
}

bool StreamRouter::make_room() {
  if (const auto evicted = pool_.first_to_go()) {
    crowd_out(*evicted);
    return true;
  }
  ++crowded_out_;
  limited_log_.warn("a connection over tcp is closed as soon as it came: " +
                    std::to_string(tcp_.size()) + " are there");
  return false;
}

void StreamRouter::crowd_out(ConnectionId id) {
  ++crowded_out_;
  Connection& connection = *connections_.at(id);
  limited_log_.warn("more connections over tcp come than end their handshakes: the oldest, of " +
                    connection.remote->address + ", makes room");
  connection.stream.close("made room for others");
  end(id);
}

void StreamRouter::watch(ConnectionId id, Connection& connection, std::uint32_t events) {
  connection.watched = events;
  reactor_.watch(connection.stream.descriptor(), events,
                 [this, id](std::uint32_t came) { on_event(id, came); });
}

void StreamRouter::watch_writing(ConnectionId id, Connection& connection) {
  if (connection.stream.has_left_over() && (connection.watched & EPOLLOUT) == 0)
    watch(id, connection, connection.watched | EPOLLOUT);
}

void StreamRouter::on_event(ConnectionId id, std::uint32_t events) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  if ((events & EPOLLOUT) != 0 && connection.stream.write_on()) {
    watch(id, connection, connection.watched & ~std::uint32_t{EPOLLOUT});
    events_.on_writable(id);
  }
  if ((events & ~std::uint32_t{EPOLLOUT}) == 0) return;
  if (!connection.stream.is_open() && connection.stream.mechanism().is_server()) {
    if ((connection.watched & EPOLLIN) == 0) {
      // Broken while it waits.
      connection.stream.close("closed it");
      end(id);
      return;
    }
    read_in_turn(id, connection);
  } else {
    read(id, connection);
  }
}

void StreamRouter::read(ConnectionId id, Connection& connection) {
  ZmtpStream& stream = connection.stream;
  const std::size_t share = shares_.next();
  for (std::size_t used = 0; used < share;) {
    const std::size_t asked = std::min(buffer_.size(), share - used);
    const std::size_t count = stream.fill(share - used);
    if (count > 0 && connection.remote) connection.remote->silence.hear(reactor_.now());
    used += count + hand_out(id, connection);
    shares_.add(count);
    if (stream.is_ended()) {
      end(id);
      return;
    }
    if (connection.remote && connection.remote->is_bounded && !stays_in_share(id, connection))
      return;
    // The answer to a heartbeat may wait for room.
    watch_writing(id, connection);
    // Should there be more after all, we are called again.
    if (count < asked) return;
  }
}

bool StreamRouter::stays_in_share(ConnectionId id, const Connection& connection) {
  const ZmtpStream& stream = connection.stream;
  while (const auto first = key_shares_.hold(id, stream.messages(), stream.unfinished_bytes())) {
    connections_.at(*first)->stream.refuse(
        "began a message that is not whole, and with its key there are too many of them");
    end(*first);
    if (*first == id) return false;
  }
  return true;
}

std::size_t StreamRouter::hand_out(ConnectionId id, Connection& connection) {
  std::size_t used = 0;
  ZmtpStream& stream = connection.stream;
  for (auto next = stream.next(parts_); next != ZmtpStream::Next::none;
       next = stream.next(parts_)) {
    if (next == ZmtpStream::Next::message) {
      used += kMessageBytes;
      events_.on_message(id, parts_);
    } else if (next == ZmtpStream::Next::opened) {
      pool_.leave(id);
    } else if (next == ZmtpStream::Next::asks) {
      ask(id, connection, asking_.size() < kMostAsking);
    }
    parts_.clear();
  }
  return used;
}

void StreamRouter::read_in_turn(ConnectionId id, Connection& connection) {
  if (turns_.take(id, reactor_.now())) {
    read_handshake(id, connection);
  } else {
    watch(id, connection, connection.watched & ~std::uint32_t{EPOLLIN});
  }
  const auto due = turns_.due();
  if (due && turns_timer_ == 0)
    turns_timer_ = reactor_.at(*due, [this] { go_on_with_handshakes(); });
}

void StreamRouter::read_handshake(ConnectionId id, Connection& connection) {
  const auto begin = Reactor::Clock::now();
  read(id, connection);
  const auto end = Reactor::Clock::now();
  turns_.spent(end - begin, reactor_.now());
}

void StreamRouter::go_on_with_handshakes() {
  turns_timer_ = 0;
  while (const auto id = turns_.next(reactor_.now())) {
    const auto found = connections_.find(*id);
    if (found == connections_.end()) continue;
    watch(*id, *found->second, found->second->watched | EPOLLIN);
    read_handshake(*id, *found->second);
    break;
  }
  if (const auto due = turns_.due())
    turns_timer_ = reactor_.at(*due, [this] { go_on_with_handshakes(); });
}

void StreamRouter::ask(ConnectionId id, Connection& connection, bool may_wait) {
  const auto verdict =
      events_.judge(connection.stream.mechanism().peer_key(), connection.remote->address, may_wait);
  if (!verdict) {
    asking_.push_back(id);
    watch(id, connection, connection.watched & ~std::uint32_t{EPOLLIN});
    return;
  }
  if (*verdict == KeyVerdict::refused) return connection.stream.refuse_key();
  if (*verdict == KeyVerdict::bounded) {
    const std::string key = connection.stream.mechanism().peer_key();
    if (!key_shares_.enter(id, key)) {
      limited_log_.warn("a connection from " + connection.remote->address +
                        " is refused: the key " + key +
                        " has as many as one key may have (connections.per_key)");
      return connection.stream.turn_away();
    }
    connection.remote->is_bounded = true;
  }
  connection.stream.accept();
  pool_.leave(id);
  watch(id, connection, connection.watched | EPOLLIN);
}

void StreamRouter::ask_again() {
  for (const ConnectionId id : std::exchange(asking_, {})) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) continue;
    ask(id, *found->second, /*may_wait=*/false);
    if (found->second->stream.is_ended()) {
      end(id);
    } else {
      watch_writing(id, *found->second);
    }
  }
}

void StreamRouter::end(ConnectionId id) {
  const auto node = connections_.extract(id);
  if (!node) return;
  const ZmtpStream& stream = node.mapped()->stream;
  pool_.leave(id);
  key_shares_.leave(id);
  reactor_.forget(stream.descriptor());
  events_.on_ended(id, stream);
  tcp_.erase(id);
}

void StreamRouter::end_tcp(const std::string& why) {
  std::vector<ConnectionId> ids;
  for (const auto& [id, connection] : tcp_) ids.push_back(id);
  for (const ConnectionId id : ids) {
    const auto found = tcp_.find(id);
    if (found == tcp_.end()) continue;
    found->second->stream.close(why);
    end(id);
  }
}

void StreamRouter::look_at_tcp() {
  look_timer_ = 0;
  if (tcp_.empty()) return;
  look_timer_ = reactor_.after(kLookAtTcp, [this] { look_at_tcp(); });
  const auto now = reactor_.now();
  const bool was_away = kOwnPause.was_away(look_due_, now);
  look_due_ = now + kLookAtTcp;
  std::vector<ConnectionId> ids;
  for (const auto& [id, connection] : tcp_) ids.push_back(id);
  for (const ConnectionId id : ids) {
    const auto found = tcp_.find(id);
    if (found == tcp_.end()) continue;
    if (was_away) found->second->remote->message_since = now;
    look_at(id, *found->second, now);
  }
}

void StreamRouter::look_at(ConnectionId id, Connection& connection, Reactor::Time now) {
  Remote& remote = *connection.remote;
  ZmtpStream& stream = connection.stream;
  if (!stream.is_in_message() ||
      stream.messages() != std::exchange(remote.messages, stream.messages()))
    remote.message_since = now;
  if (!stream.is_open()) {
    if (now - remote.came < limits_.handshake) return;
    stream.refuse("did not end its handshake in time");
  } else if (now - remote.message_since >= limits_.message) {
    stream.refuse("did not end a message within " + std::to_string(limits_.message.count()) +
                  " ms");
  } else {
    // What lies there unread, because this turn had no time for it, is a sign, too.
    int unread = 0;
    if (::ioctl(stream.descriptor(), FIONREAD, &unread) == 0 && unread > 0)
      remote.silence.hear(now);
    const auto due = remote.silence.look(now, stream.time_to_live());
    if (due == SilenceWatch::Due::nothing) return;
    if (due == SilenceWatch::Due::ping) {
      stream.ping(std::chrono::milliseconds(0));
      watch_writing(id, connection);
      return;
    }
    stream.close("gave no sign any more");
  }
  end(id);
}

StreamRouter::Sent StreamRouter::send(ConnectionId to, Frame& frame) {
  const auto found = connections_.find(to);
  if (found == connections_.end()) return Sent::gone;
  Connection& connection = *found->second;
  if (linger_.count() > 0) {
    connection.stream.send_behind(frame);
  } else if (!connection.stream.send(frame)) {
    return Sent::full;
  }
  watch_writing(to, connection);
  return Sent::yes;
}

void StreamRouter::send_behind(ConnectionId to, Frame& frame) {
  const auto found = connections_.find(to);
  if (found == connections_.end()) return;
  found->second->stream.send_behind(frame);
  watch_writing(to, *found->second);
}

int StreamRouter::descriptor_of(ConnectionId id) const {
  const auto found = connections_.find(id);
  return found == connections_.end() ? -1 : found->second->stream.descriptor();
}

std::optional<UnixPeer> StreamRouter::process_of(ConnectionId id) const {
  return is_local(id) ? unix_peer_of(descriptor_of(id)) : std::nullopt;
}

std::string StreamRouter::address_of(ConnectionId id) const {
  const auto found = tcp_.find(id);
  return found == tcp_.end() ? std::string() : found->second->remote->address;
}

std::string StreamRouter::key_of(ConnectionId id) const {
  const auto found = tcp_.find(id);
  return found == tcp_.end() ? std::string() : found->second->stream.mechanism().peer_key();
}

}  // namespace meshbus
