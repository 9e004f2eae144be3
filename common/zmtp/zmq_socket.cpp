#include "common/zmtp/zmq_socket.h"

#include "common/base/log.h"

namespace meshbus {
namespace {

/// A connection over tcp is lost after so long without an answer.
constexpr std::chrono::milliseconds kSilence{1500};
/// Long after this socket was given up.
constexpr std::chrono::milliseconds kNoReconnect = std::chrono::hours(24);

}  // namespace

ZmqSocket::ZmqSocket(Reactor& reactor, zmq::context_t& context, const Options& options,
                     Events events)
    : reactor_(reactor), events_(std::move(events)), socket_(context, zmq::socket_type::dealer) {
  // One socket is one session: libzmq must not reconnect behind our back. It could be told never
  // to, or not to queue for a connection that is not there (ZMQ_IMMEDIATE); but then 4.3.4 takes
  // away what has come and was not read yet when the connection ends, and aborts the process if
  // that happens between two parts of a message (fq.cpp: !_more).
  socket_.set(zmq::sockopt::reconnect_ivl, static_cast<int>(kNoReconnect.count()));
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::sndhwm, 2000);
  socket_.set(zmq::sockopt::rcvhwm, 10000);
  socket_.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(kPartLimit));
  if (options.keys != nullptr) set_keys(*options.keys);
  if (options.endpoint.starts_with("tcp:")) {
    socket_.set(zmq::sockopt::ipv6, true);
    // A broker on another host must be missed soon, by links and launchers alike: who waits longer
    // for his own broker than for the hosts behind it takes all of those for lost. The other end
    // cannot tell a link from other connections: the link asks it, by the time to live, to be as
    // brisk. A peer may be stopped for a while (Ctrl-Z, a debugger) and is not gone for that.
    socket_.set(zmq::sockopt::heartbeat_ivl, static_cast<int>(kSilence.count() / 3));
    socket_.set(zmq::sockopt::heartbeat_timeout, static_cast<int>(kSilence.count()));
    if (options.is_link)
      socket_.set(zmq::sockopt::heartbeat_ttl, static_cast<int>(kSilence.count()));
  }
  monitor_ = std::make_unique<SocketMonitor>(
      context, socket_,
      ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED |
          ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
          ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH);
  reactor_.watch_quiet_socket(monitor_->handle(), [this] { return on_monitor(); });
  reactor_.watch_socket(socket_.handle(), [this] { return events_.on_readable(); });
  socket_.connect(options.endpoint);
}

ZmqSocket::~ZmqSocket() {
  reactor_.cancel(writable_timer_);
  reactor_.forget_socket(monitor_->handle());
  monitor_.reset();
  reactor_.forget_socket(socket_.handle());
}

void ZmqSocket::set_keys(const Keys& keys) {
  socket_.set(zmq::sockopt::curve_publickey, keys.public_key);
  socket_.set(zmq::sockopt::curve_secretkey, keys.secret_key);
  socket_.set(zmq::sockopt::curve_serverkey, keys.server_key);
}

void ZmqSocket::set_linger(std::chrono::milliseconds linger) {
  socket_.set(zmq::sockopt::linger, static_cast<int>(linger.count()));
}

bool ZmqSocket::on_monitor() {
  const std::weak_ptr<void> alive = alive_;
  while (!alive.expired()) {
    const auto event = monitor_->next();
    if (!event) break;
    on_event(*event);
  }
  return false;
}

void ZmqSocket::on_event(const SocketMonitor::Event& event) {
  const std::weak_ptr<void> alive = alive_;
  switch (event.id) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      if (!std::exchange(is_open_, true)) events_.on_open();
      return;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH: events_.on_handshake_failed(Failure::unauthorised); break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL: events_.on_handshake_failed(Failure::silent); break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      events_.on_handshake_failed(
          event.value == static_cast<int>(ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
              ? Failure::mechanism
              : Failure::silent);
      break;
    default: break;
  }
  // Whatever had arrived before the end is still in the socket: it is taken first.
  while (!alive.expired() && events_.on_readable()) {
  }
  if (!alive.expired()) events_.on_ended({});
}

bool ZmqSocket::receive(std::vector<zmq::message_t>& parts) {
  do {
    zmq::message_t part;
    if (!socket_.recv(part, zmq::recv_flags::dontwait)) return false;
    parts.push_back(std::move(part));
  } while (parts.back().more());
  return true;
}

bool ZmqSocket::send(Frame& frame) {
  for (std::size_t i = 0; i < frame.parts.size(); ++i) {
    const bool more = i + 1 < frame.parts.size();
    try {
      if (socket_.send(frame.parts[i], (more ? zmq::send_flags::sndmore : zmq::send_flags::none) |
                                           zmq::send_flags::dontwait))
        continue;
    } catch (const zmq::error_t& error) {
      log::warn(std::string("a connection to a broker: send: ") + error.what());
    }
    // libzmq says nothing when there is room again.
    if (writable_timer_ == 0) {
      writable_timer_ = reactor_.after(std::chrono::milliseconds(1), [this] {
        writable_timer_ = 0;
        events_.on_writable();
      });
    }
    return false;
  }
  return true;
}

}  // namespace meshbus
