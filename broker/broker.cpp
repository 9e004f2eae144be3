#include "broker/broker.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <zmq.hpp>

#include "broker/admission.h"
#include "broker/forwarder.h"
#include "broker/host_address.h"
#include "broker/listener.h"
#include "broker/peer.h"
#include "broker/recent_set.h"
#include "broker/route_table.h"
#include "broker/watch_list.h"
#include "common/dispatcher.h"
#include "common/log.h"
#include "common/token.h"

namespace meshbus {
namespace {

constexpr std::uint16_t kProtocolVersion = 1;
/// So long messages are taken from a connection that has ended: libzmq tells of the end before it hands out the last ones.
constexpr std::chrono::milliseconds kDeadIdValid{100};
/// After this, and once all that had come by then is taken, those who watch it are told; but no later than the second.
constexpr std::chrono::milliseconds kLastWords{1};
constexpr std::chrono::milliseconds kLastWordsAtMost{50};
/// All messages together that wait for procs which have not registered yet.
constexpr std::size_t kWaitingBytes = 16 * 1024 * 1024;
constexpr std::size_t kWaitingCount = 65536;
/// A link carries what many peers send: it has room for so many times as much as one peer.
constexpr std::size_t kLinkQueues = 4;
constexpr std::size_t kRefusedRemembered = 32768;
constexpr std::chrono::milliseconds kFarewell{200};
constexpr std::array<std::chrono::milliseconds, 2> kProbes{std::chrono::milliseconds(5), std::chrono::milliseconds(50)};

Outbox::Limits queue_limits(const Config& config, bool is_link) {
  const std::size_t queues = is_link ? kLinkQueues : 1;
  return {.bytes = config.bytes(keys::queue_bytes) * queues, .count = config.count(keys::queue_count) * queues};
}

Forwarder::Options forwarder_options(const HostAddr& host, const BrokerOptions& options, std::uint64_t incarnation) {
  const Config& config = options.config;
  return {.host = host,
          .incarnation = incarnation,
          .insecure = options.insecure,
          .hop_limit = static_cast<std::uint8_t>(std::min<std::uint64_t>(config.count(keys::hop_limit), 255)),
          .link_queue = queue_limits(config, /*is_link=*/true),
          .waiting = {.wait = config.duration(keys::delivery_starting), .bytes = kWaitingBytes, .count = kWaitingCount},
          .link_connect_limit = options.link_connect_limit};
}

}  // namespace

/// Registers peers and answers what is for the broker itself; messages between peers are the Forwarder's.
class Broker::Impl {
 public:
  Impl(Reactor& reactor, BrokerOptions options);
  ~Impl();
  Result<void> start(zmq::context_t& context);
  void stop(const std::string& reason);
  std::size_t held() const;
  Counters counters() const;

  BrokerOptions options;
  std::uint64_t incarnation;
  std::unique_ptr<Listener> listener;
  std::optional<HostAddr> host;
  std::unordered_map<ConnectionId, std::unique_ptr<Peer>> connections;
  std::size_t ended = 0;

 private:
  /// The connection that is saying Hello while the dispatcher runs.
  struct Stranger {
    ConnectionId connection;
    int descriptor;
    Credentials credentials;
    Peer* registered = nullptr;
  };

  void on_frame(ConnectionId from, std::vector<zmq::message_t>& parts);
  void on_stranger(ConnectionId from, std::vector<zmq::message_t>& parts);
  void on_peer_frame(Peer& peer, FrameReader& reader);
  void on_peer_message(Peer& peer, FrameReader::Message& message);
  void on_link_message(std::uint64_t host_key, std::uint64_t host_incarnation, FrameReader::Message message);
  void on_own(const wire::Envelope& envelope, Bytes body);

  void on_hello(const Request& request, const wire::Hello& hello);
  void on_bye(const Request& request, const wire::Bye& bye);
  void on_introduce(const Request& request, const wire::Introduce& introduce);
  void on_watch(const Request& request, const wire::Watch& watch);

  void register_peer(Identity identity);
  void welcome(Peer& peer);
  void refuse_stranger(ConnectionId connection, const Error& error);
  /// To a connection that is not, or no longer, a peer's. Not counted.
  void send_at_once(ConnectionId connection, const std::string& body);
  void on_disconnected(int descriptor);
  /// Stops sending to it and returns what waits for it. Its last messages are still taken for a while, and its watchers told after these.
  void end_peer(Peer& peer, const std::string& reason);
  void tell_watchers_later(const Identity& identity, Reactor::Time since, const std::string& reason);
  void tell_watchers(const Identity& identity, const std::string& reason);
  void destroy_later(ConnectionId connection);
  void tell_gone(const WatchList::Watcher& watcher, const std::string& proc, std::uint64_t life, const std::string& reason);
  template <typename NativeBody>
  void answer(const Request& request, NativeBody body);
  void refuse(const Request& request, const Error& error);
  void on_heartbeat_timer();

  Reactor& reactor_;
  Dispatcher handlers_;
  RouteTable routes_;
  WatchList watches_;
  std::unique_ptr<Forwarder> forwarder_;
  std::optional<Admission> admission_;
  std::unordered_map<int, ConnectionId> descriptors_;
  /// Descriptors of connections that ended and were not registered. As few as there are descriptors.
  std::unordered_set<int> unknown_ends_;
  RecentSet<ConnectionId, char> refused_{kRefusedRemembered};
  Stranger* stranger_ = nullptr;
  std::uint64_t turn_end_ = 0;
  std::chrono::milliseconds heartbeat_;
  Reactor::TimerId heartbeat_timer_ = 0;
  const std::string heartbeat_body_ = encode_control({}, wire::HeartbeatT());
  log::Limited limited_log_{10};
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

Broker::Impl::Impl(Reactor& reactor, BrokerOptions given)
    : options(std::move(given)),
      incarnation(options.incarnation != 0 ? options.incarnation : random_u64()),
      reactor_(reactor),
      heartbeat_(options.config.duration(keys::heartbeat)) {
  handlers_.on<wire::Hello>(Role::none, std::bind_front(&Impl::on_hello, this))
      .on<wire::Heartbeat>(Role::observe, [](const Request&, const wire::Heartbeat&) {})
      .on<wire::Bye>(Role::observe, std::bind_front(&Impl::on_bye, this))
      .on<wire::Introduce>(Role::observe, std::bind_front(&Impl::on_introduce, this))
      .on<wire::Watch>(Role::observe, std::bind_front(&Impl::on_watch, this));
}

Broker::Impl::~Impl() {
  reactor_.cancel(heartbeat_timer_);
  if (turn_end_ != 0) reactor_.forget_turn_end(turn_end_);
}

Result<void> Broker::Impl::start(zmq::context_t& context) {
  if (auto checked = check_addresses(options.binds, options.advertise, options.insecure); !checked) return checked;
  Listener::Events events;
  events.on_frame = [this](ConnectionId from, std::vector<zmq::message_t>& parts) { on_frame(from, parts); };
  events.on_disconnected = [this](int descriptor) { on_disconnected(descriptor); };
  auto opened = Listener::open(reactor_, context, options.binds, std::move(events));
  if (!opened) return fail(opened.error());
  listener = std::move(*opened);
  host = advertised_address(listener->addresses(), options.advertise);

  admission_.emplace(Admission::Options{.host = *host, .uid = ::geteuid(), .insecure = options.insecure}, options.tokens);

  Forwarder::Events forwarding;
  forwarding.on_own = [this](const wire::Envelope& envelope, Bytes body) { on_own(envelope, body); };
  forwarding.on_link_message = [this](Link& link, const FrameReader::Message& message) {
    on_link_message(link.key(), link.incarnation(), message);
  };
  forwarding.on_lost = [this](Peer& peer) { end_peer(peer, "its connection ended"); };
  forwarder_ =
      std::make_unique<Forwarder>(reactor_, context, routes_, forwarder_options(*host, options, incarnation), std::move(forwarding));
  forwarder_->set_listener(*listener);
  turn_end_ = reactor_.add_turn_end([this] { forwarder_->flush(); });
  heartbeat_timer_ = reactor_.after(heartbeat_ / 4, [this] { on_heartbeat_timer(); });
  return {};
}

void Broker::Impl::on_frame(ConnectionId from, std::vector<zmq::message_t>& parts) {
  const auto found = connections.find(from);
  if (found == connections.end()) {
    on_stranger(from, parts);
    return;
  }
  auto reader = FrameReader::open(parts);
  if (!reader) {
    ++forwarder_->counters().malformed_frames;
    limited_log_.warn(found->second->identity.text + " sent a frame that is dropped: " + reader.error().detail());
    return;
  }
  on_peer_frame(*found->second, *reader);
}

void Broker::Impl::on_stranger(ConnectionId from, std::vector<zmq::message_t>& parts) {
  Counters& counters = forwarder_->counters();
  if (refused_.contains(from)) {
    ++counters.ignored_frames;
    return;
  }
  Stranger stranger{from, Listener::descriptor_of(parts.front()), Credentials::from_peer_address(Listener::peer_address_of(parts.front()))};
  auto reader = FrameReader::open(parts);
  if (!reader) {
    ++counters.malformed_frames;
    if (reader.error().code() == ErrorCode::version_mismatch) refuse_stranger(from, reader.error());
    return;
  }
  FrameReader::Message message;
  if (!reader->next(message) || message.envelope.kind() != wire::Kind::control) {
    ++counters.ignored_frames;
    return;
  }
  auto control = ControlMessage::decode(message.body);
  if (!control) {
    ++counters.malformed_frames;
    return;
  }
  message.envelope.mutate_role(Role::none);
  stranger_ = &stranger;
  const auto done =
      handlers_.dispatch(Request{message.envelope, {.id = (*control)->id(), .deadline_ms = (*control)->deadline_ms()}}, **control);
  stranger_ = nullptr;
  if (!done) {
    ++counters.ignored_frames;
    limited_log_.info("a connection from " + stranger.credentials.address + " that is not registered: " + done.error().detail());
    return;
  }
  if (stranger.registered != nullptr) on_peer_frame(*stranger.registered, *reader);
}

void Broker::Impl::on_peer_frame(Peer& peer, FrameReader& reader) {
  if (reader.header().credit() > peer.credit) {
    peer.credit = std::min(reader.header().credit(), peer.sent);
    forwarder_->touch(peer);
  }
  if (reader.is_link()) peer.link_heard = reader.link().sequence();
  FrameReader::Message message;
  while (reader.next(message)) {
    if (message.envelope.lane() == wire::Lane::data) peer.taken += sizeof message.envelope + message.body.size();
    on_peer_message(peer, message);
  }
  if (reader.is_malformed()) {
    ++forwarder_->counters().malformed_frames;
    limited_log_.warn(peer.identity.text + " sent a malformed frame; the rest of it is dropped");
  }
}

void Broker::Impl::on_peer_message(Peer& peer, FrameReader::Message& message) {
  const Identity& who = peer.identity;
  if (who.is_link()) {
    on_link_message(who.key, who.incarnation, message);
    return;
  }
  wire::Envelope& envelope = message.envelope;
  envelope.mutate_source_proc(who.key);
  envelope.mutate_source_host(forwarder_->own_key());
  envelope.mutate_source_incarnation(who.incarnation);
  envelope.mutate_role(who.role);
  envelope.mutate_hop(0);
  if (envelope.destination_host() == 0) envelope.mutate_destination_host(forwarder_->own_key());
  forwarder_->forward(envelope, message.body, message.apart);
}

void Broker::Impl::on_link_message(std::uint64_t host_key, std::uint64_t host_incarnation, FrameReader::Message message) {
  wire::Envelope& envelope = message.envelope;
  if (envelope.source_host() == 0 && envelope.source_proc() == 0) {
    // The other broker about the link itself; it leaves its own address out.
    envelope.mutate_source_host(host_key);
    envelope.mutate_source_incarnation(host_incarnation);
    envelope.mutate_role(Role::broker);
  }
  if (envelope.source_host() != host_key) {
    ++forwarder_->counters().received;
    forwarder_->counters().drop(Drop::false_source);
    limited_log_.warn("a link sent a message of another host than its own; dropped");
    return;
  }
  // A broker vouches for its own peers: up to operators, and the one agent that its host has.
  if (envelope.source_proc() == 0) {
    envelope.mutate_role(Role::broker);
  } else if (envelope.role() > Role::operate) {
    const Link* link = forwarder_->find_link(host_key);
    const bool is_agent = link != nullptr && envelope.source_proc() == host_service(link->host()).key();
    envelope.mutate_role(is_agent ? Role::host : Role::operate);
  }
  forwarder_->forward(envelope, message.body, message.apart);
}

void Broker::Impl::on_own(const wire::Envelope& envelope, Bytes body) {
  const auto control = ControlMessage::decode(body);
  if (!control) {
    limited_log_.warn("a message to this broker: " + control.error().detail());
    return;
  }
  if ((*control)->is_answer()) return;
  const Request request{envelope, {.id = (*control)->id(), .deadline_ms = (*control)->deadline_ms()}};
  if (const auto done = handlers_.dispatch(request, **control); !done) refuse(request, done.error());
}

void Broker::Impl::on_hello(const Request& request, const wire::Hello& hello) {
  if (stranger_ == nullptr) {
    refuse(request, Error(ErrorCode::unauthorised, "this connection is registered already"));
    return;
  }
  auto identity = admission_->admit(hello, stranger_->credentials);
  // Whose place it would take may have ended just now, and its descriptor may be this one's.
  listener->drain_monitor();
  if (identity && !identity->is_link()) {
    if (auto allowed = routes_.may_add(*identity); !allowed) identity = fail(allowed.error());
  }
  if (identity && identity->is_link()) {
    if (const auto other = HostAddr::parse(identity->text)) {
      if (auto link = forwarder_->introduce(*other); !link) identity = fail(link.error());
    }
  }
  if (!identity) {
    refuse_stranger(stranger_->connection, identity.error());
    return;
  }
  register_peer(std::move(*identity));
}

void Broker::Impl::refuse_stranger(ConnectionId connection, const Error& error) {
  ++forwarder_->counters().refused_hellos;
  limited_log_.warn("a peer is refused: " + error.to_string());
  refused_.add(connection, 0);
  wire::RefusalT refusal;
  refusal.code = to_wire(error.code());
  refusal.detail = error.detail();
  send_at_once(connection, encode_control({}, std::move(refusal)));
}

void Broker::Impl::send_at_once(ConnectionId connection, const std::string& body) {
  wire::Envelope envelope;
  envelope.mutate_source_host(forwarder_->own_key());
  envelope.mutate_source_incarnation(incarnation);
  envelope.mutate_role(Role::broker);
  envelope.mutate_flags(kFlagNoReturn);
  FrameWriter writer(wire::Lane::control);
  writer.add(envelope, body);
  Frame frame = writer.finish();
  listener->send(connection, frame);
}

void Broker::Impl::register_peer(Identity identity) {
  const Outbox::Limits limits = queue_limits(options.config, identity.is_link());
  auto made = std::make_unique<Peer>(std::move(identity), stranger_->connection, stranger_->descriptor, limits);
  Peer& peer = *made;
  connections.emplace(peer.connection, std::move(made));
  if (peer.descriptor >= 0) descriptors_[peer.descriptor] = peer.connection;
  // Was it this very connection that ended, between its Hello and now, or one that had the descriptor before? A send will tell.
  if (unknown_ends_.erase(peer.descriptor) > 0) {
    for (const auto delay : kProbes) {
      reactor_.after(delay, [this, connection = peer.connection, alive = std::weak_ptr<void>(alive_)] {
        if (alive.expired()) return;
        const auto at = connections.find(connection);
        if (at != connections.end() && !at->second->is_ended) forwarder_->originate_to(*at->second, heartbeat_body_);
      });
    }
  }
  stranger_->registered = &peer;
  peer.last_sent = reactor_.now();
  log::debug("registered " + peer.identity.text + " (" + wire::EnumNamePeerKind(peer.identity.kind) + ", " +
             stranger_->credentials.address + ")");

  if (peer.identity.is_link()) {
    // Another session of the same broker ends: there is one inbound link per host.
    for (auto& [id, other] : connections) {
      if (other.get() != &peer && other->identity.key == peer.identity.key && !other->is_ended)
        end_peer(*other, "its broker opened another link");
    }
    welcome(peer);
    forwarder_->find_link(peer.identity.key)->attach(peer);
    return;
  }
  Peer* replaced = routes_.add(peer);
  welcome(peer);
  if (replaced != nullptr) {
    if (replaced->identity.incarnation == peer.identity.incarnation) {
      forwarder_->move_outbox(*replaced, peer);
    } else {
      forwarder_->return_outbox(
          *replaced, Error(ErrorCode::no_such_proc, "this life of " + peer.identity.text + " is over; another one has registered"));
      wire::ByeT bye;
      bye.reason = "another life of " + peer.identity.text + " has registered";
      send_at_once(replaced->connection, encode_control({}, std::move(bye)));
    }
    end_peer(*replaced, "another connection took its place");
  }
  forwarder_->release_waiting(peer);
}

void Broker::Impl::welcome(Peer& peer) {
  wire::WelcomeT welcome;
  welcome.version = kProtocolVersion;
  welcome.host = host->to_string();
  welcome.incarnation = incarnation;
  welcome.role = peer.identity.role;
  welcome.heartbeat_ms = static_cast<std::uint32_t>(heartbeat_.count());
  forwarder_->originate_to(peer, encode_control({}, std::move(welcome)));
}

void Broker::Impl::on_disconnected(int descriptor) {
  const auto found = descriptors_.find(descriptor);
  if (found == descriptors_.end()) {
    unknown_ends_.insert(descriptor);
    return;
  }
  const ConnectionId connection = found->second;
  descriptors_.erase(found);
  if (const auto peer = connections.find(connection); peer != connections.end()) end_peer(*peer->second, "its connection ended");
}

void Broker::Impl::end_peer(Peer& peer, const std::string& reason) {
  if (peer.is_ended) return;
  peer.is_ended = true;
  ++ended;
  const Identity& who = peer.identity;
  log::debug(who.text + " has left: " + reason);
  if (const auto at = descriptors_.find(peer.descriptor); at != descriptors_.end() && at->second == peer.connection) descriptors_.erase(at);
  if (who.is_link()) {
    if (Link* link = forwarder_->find_link(who.key)) link->detach(peer);
    forwarder_->return_outbox(peer, Error(ErrorCode::link_lost, "the link to " + who.text + " is lost: " + reason));
  } else {
    routes_.remove(peer);
    forwarder_->return_outbox(peer, Error(ErrorCode::no_such_proc, who.text + " has left: " + reason));
    tell_watchers_later(who, reactor_.now(), reason);
  }
  destroy_later(peer.connection);
}

void Broker::Impl::tell_watchers_later(const Identity& identity, Reactor::Time since, const std::string& reason) {
  reactor_.after(kLastWords, [this, identity, since, reason, alive = std::weak_ptr<void>(alive_)] {
    if (alive.expired()) return;
    if (!listener->is_drained() && reactor_.now() - since < kLastWordsAtMost) {
      tell_watchers_later(identity, since, reason);
      return;
    }
    // The same life may have come back on another connection.
    const Peer* there = routes_.find(identity.key);
    if (there != nullptr && there->identity.incarnation == identity.incarnation) return;
    tell_watchers(identity, reason);
    watches_.forget(identity.key, identity.incarnation);
  });
}

void Broker::Impl::destroy_later(ConnectionId connection) {
  reactor_.after(kDeadIdValid, [this, connection, alive = std::weak_ptr<void>(alive_)] {
    if (alive.expired()) return;
    const auto found = connections.find(connection);
    if (found == connections.end()) return;
    if (!listener->is_drained()) {
      destroy_later(connection);
      return;
    }
    forwarder_->forget(*found->second);
    connections.erase(found);
    --ended;
  });
}

void Broker::Impl::tell_watchers(const Identity& identity, const std::string& reason) {
  for (const WatchList::Watcher& watcher : watches_.take(identity.key, identity.incarnation))
    tell_gone(watcher, identity.text, identity.incarnation, reason);
}

void Broker::Impl::tell_gone(const WatchList::Watcher& watcher, const std::string& proc, std::uint64_t life, const std::string& reason) {
  wire::GoneT gone;
  gone.proc = proc;
  gone.incarnation = life;
  gone.reason = reason;
  forwarder_->originate(watcher.proc, watcher.host, encode_control({.id = watcher.request}, std::move(gone)));
}

void Broker::Impl::on_bye(const Request& request, const wire::Bye& bye) {
  const std::string reason = "it said: " + text_of(bye.reason());
  if (request.envelope.source_host() == forwarder_->own_key()) {
    if (Peer* peer = routes_.find(request.envelope.source_proc())) end_peer(*peer, reason);
    return;
  }
  if (request.envelope.role() != Role::broker) return;
  for (auto& [id, peer] : connections) {
    if (peer->identity.is_link() && peer->identity.key == request.envelope.source_host()) end_peer(*peer, reason);
  }
}

void Broker::Impl::on_introduce(const Request& request, const wire::Introduce& introduce) {
  auto other = HostAddr::parse(introduce.host()->string_view());
  if (!other) {
    refuse(request, other.error());
    return;
  }
  if (*other != *host) {
    if (request.envelope.source_host() != forwarder_->own_key()) {
      refuse(request, Error(ErrorCode::unroutable, "a broker passes nothing on for procs of other hosts; introduce " + other->to_string() +
                                                       " to your own broker"));
      return;
    }
    if (auto link = forwarder_->introduce(*other); !link) {
      forwarder_->refuse_host(other->key(), link.error());
      refuse(request, link.error());
      return;
    }
  }
  answer(request, wire::AckT());
}

void Broker::Impl::on_watch(const Request& request, const wire::Watch& watch) {
  const auto proc = ProcId::parse(watch.proc()->string_view());
  if (!proc) {
    refuse(request, proc.error());
    return;
  }
  if (proc->host() != *host) {
    refuse(request,
           Error(ErrorCode::unroutable, proc->to_string() + " is not of this host, " + host->to_string() + "; ask the broker of its host"));
    return;
  }
  if (request.head.id == 0) return;
  const wire::Envelope& from = request.envelope;
  const Peer* peer = routes_.find(proc->key());
  const std::uint64_t life = peer == nullptr ? 0 : peer->identity.incarnation;
  const WatchList::Watcher watcher{from.source_proc(), from.source_host(), from.source_incarnation(), request.head.id, life};
  if (peer != nullptr && !watches_.add(proc->key(), watcher)) {
    refuse(request, Error(ErrorCode::queue_full, "this broker watches " + std::to_string(watches_.size()) + " procs already"));
    return;
  }
  answer(request, wire::AckT());
  if (peer == nullptr) tell_gone(watcher, proc->to_string(), 0, "it is not registered");
}

template <typename NativeBody>
void Broker::Impl::answer(const Request& request, NativeBody body) {
  if (request.head.id == 0 || request.envelope.source_proc() == 0) return;
  forwarder_->originate(request.envelope.source_proc(), request.envelope.source_host(),
                        encode_control({.id = request.head.id, .is_answer = true}, std::move(body)));
}

void Broker::Impl::refuse(const Request& request, const Error& error) {
  wire::RefusalT refusal;
  refusal.code = to_wire(error.code());
  refusal.detail = error.detail();
  answer(request, std::move(refusal));
}

void Broker::Impl::on_heartbeat_timer() {
  const auto now = reactor_.now();
  for (auto& [id, peer] : connections) {
    if (!peer->is_ended && peer->outbox.empty() && now - peer->last_sent >= heartbeat_ / 2)
      forwarder_->originate_to(*peer, heartbeat_body_);
  }
  heartbeat_timer_ = reactor_.after(heartbeat_ / 4, [this] { on_heartbeat_timer(); });
}

void Broker::Impl::stop(const std::string& reason) {
  wire::ByeT bye;
  bye.reason = reason;
  const std::string body = encode_control({}, std::move(bye));
  for (auto& [id, peer] : connections) {
    if (!peer->is_ended) forwarder_->originate_to(*peer, body);
  }
  forwarder_->close_links(reason);
  forwarder_->flush();
  listener->set_linger(kFarewell);
  log::debug("messages: " + counters().to_string());
}

std::size_t Broker::Impl::held() const {
  std::size_t held = forwarder_->held();
  for (const auto& [id, peer] : connections) held += peer->outbox.count();
  return held;
}

Counters Broker::Impl::counters() const {
  Counters counters = forwarder_->all_counters();
  counters.ignored_frames += listener->unusable();
  return counters;
}

Result<std::unique_ptr<Broker>> Broker::start(Reactor& reactor, zmq::context_t& context, BrokerOptions options) {
  auto impl = std::make_unique<Impl>(reactor, std::move(options));
  if (auto started = impl->start(context); !started) return fail(started.error());
  return std::unique_ptr<Broker>(new Broker(std::move(impl)));
}

Broker::Broker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Broker::~Broker() = default;

const HostAddr& Broker::address() const noexcept {
  return *impl_->host;
}
const std::vector<HostAddr>& Broker::binds() const noexcept {
  return impl_->listener->addresses();
}
std::uint64_t Broker::incarnation() const noexcept {
  return impl_->incarnation;
}
std::size_t Broker::peers() const noexcept {
  return impl_->connections.size() - impl_->ended;
}
Counters Broker::counters() const {
  return impl_->counters();
}
std::size_t Broker::held() const {
  return impl_->held();
}
void Broker::stop(const std::string& reason) {
  impl_->stop(reason);
}

}  // namespace meshbus
