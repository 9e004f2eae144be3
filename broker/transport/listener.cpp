#include "broker/transport/listener.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "broker/access/zap.h"
#include "broker/transport/resolver.h"
#include "common/base/log.h"

namespace meshbus {
namespace {

constexpr int kDrainFrames = 256;
constexpr std::size_t kDrainBytes = 1024 * 1024;
/// A frame has one part and one for each of its large bodies, which its sender keeps few.
constexpr int kMostEvents = 65536;
constexpr int kBindAttempts = 500;
constexpr std::chrono::milliseconds kBindDelay{2};
/// libzmq names connections by 5 bytes, 0 and a number. A peer that chose its own name is none of
/// ours.
constexpr std::size_t kRoutingIdSize = 5;

std::array<char, kRoutingIdSize> routing_id_of(ConnectionId id) {
  return {0, static_cast<char>(id >> 24), static_cast<char>(id >> 16), static_cast<char>(id >> 8),
          static_cast<char>(id)};
}

bool read_routing_id(const zmq::message_t& part, ConnectionId& id) {
  if (part.size() != kRoutingIdSize) return false;
  const auto* bytes = static_cast<const unsigned char*>(part.data());
  id = (ConnectionId{bytes[1]} << 24) | (ConnectionId{bytes[2]} << 16) |
       (ConnectionId{bytes[3]} << 8) | ConnectionId{bytes[4]};
  return bytes[0] == 0;
}

bool receive_part(void* socket, zmq::message_t& part) {
  while (zmq_msg_recv(part.handle(), socket, ZMQ_DONTWAIT) < 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

std::string describe_handshake(int event, int error, bool has_keys) {
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)
    return "a connection ended in its handshake without a word: it has no keys, or knows another "
           "one for this host";
  if (error == static_cast<int>(ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH))
    return has_keys ? "a connection without keys was refused"
                    : "a connection with keys was refused: this broker runs with --insecure";
  if (error == static_cast<int>(ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC))
    return "a connection was refused in its handshake: it knows another key for this host, or what "
           "it sent was forged";
  return "a connection broke the rules of its handshake (libzmq's error " + std::to_string(error) +
         ") and was refused";
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::open(Reactor& reactor, zmq::context_t& context,
                                                 const std::vector<HostAddr>& binds, Limits limits,
                                                 std::optional<KeyPair> keys, Events events) {
  try {
    std::unique_ptr<Listener> listener(
        new Listener(reactor, context, limits, std::move(keys), std::move(events)));
    if (auto bound = listener->bind_all(binds); !bound) return fail(bound.error());
    return listener;
  } catch (const zmq::error_t& error) {
    return fail(ErrorCode::io_error,
                std::string("cannot make the broker's socket: ") + error.what());
  }
}

Listener::Listener(Reactor& reactor, zmq::context_t& context, Limits limits,
                   std::optional<KeyPair> keys, Events events)
    : reactor_(reactor),
      limits_(limits),
      keys_(std::move(keys)),
      events_(std::move(events)),
      local_(reactor, local_events()),
      router_(context, zmq::socket_type::router) {
  router_.set(zmq::sockopt::router_mandatory, true);
  router_.set(zmq::sockopt::router_handover, false);
  router_.set(zmq::sockopt::linger, 0);
  router_.set(zmq::sockopt::backlog, 4096);
  router_.set(zmq::sockopt::handshake_ivl, static_cast<int>(limits_.handshake.count()));
  router_.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(kPartLimit));
  // A backstop only: bytes are bounded by credit, messages by our own queues.
  router_.set(zmq::sockopt::sndhwm, 1000);
  router_.set(zmq::sockopt::rcvhwm, 1000);
  // Who finds that this side has keys and it has none may leave before it is refused.
  monitor_ = std::make_unique<SocketMonitor>(
      context, router_,
      ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
          (keys_ ? ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL : 0));
  reactor_.watch_quiet_socket(monitor_->handle(), [this] {
    drain_monitor();
    return false;
  });
}

Listener::~Listener() {
  reactor_.forget_socket(monitor_->handle());
  reactor_.forget_socket(router_.handle());
  monitor_.reset();
}

void Listener::set_linger(std::chrono::milliseconds linger) {
  local_.set_linger(linger);
  router_.set(zmq::sockopt::linger, static_cast<int>(linger.count()));
}

Result<void> Listener::bind_all(const std::vector<HostAddr>& binds) {
  for (const HostAddr& address : binds) {
    if (auto bound = bind(address); !bound) return bound;
  }
  // Without tcp nothing ever comes there, and asking would cost each turn two system calls.
  if (std::ranges::any_of(
          binds, [](const HostAddr& address) { return address.transport() == Transport::tcp; }))
    reactor_.watch_socket(router_.handle(), [this] { return on_readable(); });
  return {};
}

Result<void> Listener::bind(const HostAddr& address) {
  switch (address.transport()) {
    case Transport::unix_socket: return bind_unix(address);
    case Transport::tcp: return bind_tcp(address);
    case Transport::local: break;
  }
  return fail(ErrorCode::configuration_error,
              address.to_string() +
                  " is an address inside one process; a broker serves unix: and tcp: addresses");
}

Result<void> Listener::bind_unix(const HostAddr& address) {
  if (address.is_any()) {
    auto folder = PrivateFolder::make();
    if (!folder) return fail(folder.error());
    folders_.push_back(std::move(*folder));
    const auto concrete = HostAddr::parse("unix:" + folders_.back().path() + "/bus");
    return concrete
               ? bind_unix(*concrete)
               : fail(concrete.error().within("a unix socket among the temporary files (TMPDIR)"));
  }
  const std::string path(address.path());
  if (auto cleared = clear_unix_path(path); !cleared) return cleared;
  try {
    // Abstract names are no files; and the mask is that of the whole process, which in local mode
    // is not the broker's own.
    std::optional<PrivateFiles> private_files;
    if (!path.starts_with('@')) private_files.emplace();
    local_.listen(path);
  } catch (const std::system_error& error) {
    return fail(ErrorCode::io_error,
                "cannot listen on " + address.to_string() + ": " + error.what());
  }
  files_.emplace_back(path);
  addresses_.push_back(address);
  return {};
}

Result<void> Listener::bind_tcp(const HostAddr& address) {
  // Heartbeats for tcp only: whoever is merely frozen on this machine stays. Links ask for a
  // shorter time by themselves (common/bus/session.cpp).
  router_.set(zmq::sockopt::heartbeat_ivl, static_cast<int>(limits_.silence.count() / 3));
  router_.set(zmq::sockopt::heartbeat_timeout, static_cast<int>(limits_.silence.count()));
  router_.set(zmq::sockopt::ipv6, address.is_ipv6());
  set_keys();
  if (Resolver::is_literal(address)) return bind_endpoint(address, address.zmq_endpoint());
  // Blocks, but at the start only; libzmq would not take a name here.
  const auto endpoints = resolve_now(address);
  if (!endpoints) return fail(endpoints.error().within("cannot listen on " + address.to_string()));
  router_.set(zmq::sockopt::ipv6, endpoints->front().find('[') != std::string::npos);
  return bind_endpoint(address, endpoints->front());
}

void Listener::set_keys() {
  if (!keys_) return;
  router_.set(zmq::sockopt::curve_secretkey, keys_->secret_key);
  router_.set(zmq::sockopt::zap_domain, Zap::kDomain);
  router_.set(zmq::sockopt::curve_server, true);
}

void Listener::change_keys(KeyPair keys) {
  keys_ = std::move(keys);
  for (const HostAddr& address : std::vector(addresses_)) {
    if (address.transport() == Transport::tcp) bind_again(address, kBindAttempts);
  }
}

void Listener::bind_again(const HostAddr& address, int attempts) {
  // The port is concrete, so it is the same. The old listening socket may take a moment to go.
  const std::string endpoint = address.zmq_endpoint();
  if (attempts == kBindAttempts) {
    try {
      router_.unbind(endpoint);
    } catch (const zmq::error_t& error) {
      log::error("new keys for " + address.to_string() + ": unbind: " + error.what());
    }
  }
  const auto bound = bind(address);
  if (bound) {
    // It is the address that was there before.
    addresses_.pop_back();
    return;
  }
  if (attempts == 1) {
    log::error("nobody can connect any more: " + bound.error().detail());
    return;
  }
  reactor_.after(kBindDelay, [this, address, attempts, alive = std::weak_ptr<void>(alive_)] {
    if (!alive.expired()) bind_again(address, attempts - 1);
  });
}

Result<void> Listener::bind_endpoint(const HostAddr& address, const std::string& endpoint) {
  try {
    router_.bind(endpoint);
  } catch (const zmq::error_t& error) {
    return fail(ErrorCode::io_error,
                "cannot listen on " + address.to_string() + ": " + error.what());
  }
  auto concrete = HostAddr::parse(router_.get(zmq::sockopt::last_endpoint));
  if (!concrete) return fail(concrete.error().within("listening on " + address.to_string()));
  addresses_.push_back(*concrete);
  return {};
}

LocalRouter::Events Listener::local_events() {
  LocalRouter::Events events;
  events.on_message = [this](ConnectionId from, std::vector<zmq::message_t>& parts) {
    events_.on_frame(from, parts);
  };
  events.on_accepted = [this](ConnectionId, int descriptor) {
    drain_monitor();  // who had the descriptor before
    if (events_.on_accepted) events_.on_accepted(descriptor);
  };
  events.on_writable = [this](ConnectionId id) {
    if (events_.on_writable) events_.on_writable(id);
  };
  events.on_ended = [this](ConnectionId id, const ZmtpStream& stream) {
    const std::string why =
        stream.is_refused() ? "it " + stream.why_ended() : "its connection ended";
    if (stream.is_refused() && stream.was_open()) ++unusable_;
    if (stream.is_refused() && !stream.was_open() && events_.on_bad_handshake)
      events_.on_bad_handshake("a connection over a unix socket was refused in its handshake: " +
                               why);
    if (events_.on_ended) events_.on_ended(id, stream.descriptor(), why);
  };
  return events;
}

bool Listener::receive(ConnectionId& from, std::size_t& bytes, bool& is_usable) {
  zmq::message_t id;
  if (!receive_part(router_.handle(), id)) return false;
  is_usable = read_routing_id(id, from);
  // To the end of the message in any case; the parts of one that cannot be a frame are not kept.
  for (bool more = id.more(); more;) {
    zmq::message_t part;
    if (!receive_part(router_.handle(), part)) break;
    more = part.more();
    bytes += part.size();
    if (parts_.size() == kMostParts) is_usable = false;
    if (is_usable) parts_.push_back(std::move(part));
  }
  return true;
}

bool Listener::on_readable() {
  std::size_t bytes = 0;
  for (int frames = 0; frames < kDrainFrames && bytes < kDrainBytes; ++frames) {
    ConnectionId from = 0;
    bool is_usable = false;
    if (!receive(from, bytes, is_usable)) {
      is_drained_ = true;
      return false;
    }
    if (is_usable && !parts_.empty()) {
      events_.on_frame(from, parts_);
    } else {
      ++unusable_;
    }
    parts_.clear();
  }
  is_drained_ = false;
  return true;
}

Listener::Sent Listener::send(ConnectionId to, Frame& frame) {
  if (LocalRouter::is_local(to)) {
    switch (local_.send(to, frame)) {
      case LocalRouter::Sent::yes: return Sent::yes;
      case LocalRouter::Sent::full: return Sent::full;
      case LocalRouter::Sent::gone: return Sent::gone;
    }
  }
  const auto id = routing_id_of(to);
  if (zmq_send(router_.handle(), id.data(), id.size(), ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0)
    return errno == EAGAIN ? Sent::full : Sent::gone;
  for (std::size_t i = 0; i < frame.parts.size(); ++i) {
    const int more = i + 1 < frame.parts.size() ? ZMQ_SNDMORE : 0;
    // The room was checked with the id: from here on only the end of the connection can come, and
    // the next send tells of that.
    if (zmq_msg_send(frame.parts[i].handle(), router_.handle(), ZMQ_DONTWAIT | more) < 0)
      return Sent::gone;
  }
  return Sent::yes;
}

void Listener::send_behind(ConnectionId to, Frame& frame) {
  if (LocalRouter::is_local(to)) {
    local_.send_behind(to, frame);
  } else {
    send(to, frame);
  }
}

void Listener::drain_monitor() {
  for (int i = 0; i < kMostEvents; ++i) {
    const auto event = monitor_->next();
    if (!event) return;
    if (event->id == ZMQ_EVENT_DISCONNECTED) {
      events_.on_disconnected(event->value);
    } else if (event->id == ZMQ_EVENT_ACCEPTED) {
      if (events_.on_accepted) events_.on_accepted(event->value);
    } else if (events_.on_bad_handshake) {
      events_.on_bad_handshake(describe_handshake(event->id, event->value, keys_.has_value()));
    }
  }
}

int Listener::descriptor_of(ConnectionId from, zmq::message_t& part) const {
  return LocalRouter::is_local(from) ? local_.descriptor_of(from)
                                     : zmq_msg_get(part.handle(), ZMQ_SRCFD);
}

Listener::Origin Listener::origin_of(ConnectionId from, zmq::message_t& part) const {
  if (LocalRouter::is_local(from))
    return {.descriptor = descriptor_of(from, part), .process = local_.process_of(from)};
  const auto property = [&part](const char* name) {
    const char* text = zmq_msg_gets(part.handle(), name);
    return text == nullptr ? std::string() : std::string(text);
  };
  return {.descriptor = descriptor_of(from, part),
          .address = property("Peer-Address"),
          .user = property("User-Id")};
}

}  // namespace meshbus
