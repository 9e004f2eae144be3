#include "broker/broker.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "broker/access/host_address.h"
#include "broker/access/key_service.h"
#include "broker/broker_report.h"
#include "broker/broker_requests.h"
#include "broker/frame_intake.h"
#include "broker/handshake.h"
#include "broker/links/link_table.h"
#include "broker/observe/audit_trail.h"
#include "broker/observe/monitor.h"
#include "broker/observe/tap.h"
#include "broker/peer_registry.h"
#include "broker/peers/connection_table.h"
#include "broker/router/cast_fanout.h"
#include "broker/router/cast_receiver.h"
#include "broker/router/cast_relay.h"
#include "broker/router/peer_queues.h"
#include "broker/router/router.h"
#include "broker/transport/listener.h"
#include "broker/watchers.h"
#include "common/base/log.h"
#include "common/security/token.h"
#include "common/wire/control.h"
#include "wire/bus_generated.h"

namespace meshbus {
namespace {

/// All messages together that wait for procs which have not registered yet.
constexpr std::size_t kWaitingBytes = 16 * 1024 * 1024;
constexpr std::size_t kWaitingCount = 65536;
/// A link carries what many peers send: it has room for so many times as much as one peer.
constexpr std::size_t kLinkQueues = 4;
constexpr std::chrono::milliseconds kFarewell{200};
/// However short the heartbeat: a connection over tcp may give no answer for so long.
constexpr std::chrono::milliseconds kLeastSilence{1500};
/// For reading why a connection was refused.
constexpr std::chrono::milliseconds kRefusedStays{1000};
/// The monitor names peers that have taken nothing for so long.
constexpr std::chrono::milliseconds kSlow{1000};

/// How much waits for one peer, or for one other host.
Outbox::Limits queue_limits(const Config& config, std::size_t queues) {
  return {.bytes = config.bytes(keys::queue_bytes) * queues,
          .count = config.count(keys::queue_count) * queues};
}

/// The tcp address that this host is known by, or listens on.
std::optional<HostAddr> own_tcp(const BrokerOptions& options) {
  if (options.advertise && is_tcp(*options.advertise)) return options.advertise;
  const auto found = std::find_if(options.binds.begin(), options.binds.end(), is_tcp);
  return found == options.binds.end() ? std::nullopt : std::optional(*found);
}

LinkTable::Options link_options(const HostAddr& host, const BrokerOptions& options) {
  return {.host = host,
          .incarnation = options.incarnation,
          .insecure = options.insecure,
          .keys = options.keys,
          .queue = queue_limits(options.config, kLinkQueues),
          .connect_limit = options.link_connect_limit,
          .delivery_limit = options.config.duration(keys::delivery_limit),
          .forget_after = options.link_forget_after,
          .dials_unix = !options.become_other_user,
          .protocol = options.protocol,
          .capabilities = options.capabilities};
}

Router::Options router_options(const HostAddr& host, const BrokerOptions& options) {
  const auto hop_limit = std::min<std::uint64_t>(options.config.count(keys::hop_limit), 255);
  return {.host = host,
          .incarnation = options.incarnation,
          .hop_limit = static_cast<std::uint8_t>(hop_limit),
          .waiting = {.wait = options.config.duration(keys::delivery_starting),
                      .bytes = kWaitingBytes,
                      .count = kWaitingCount}};
}

Handshake::Options handshake_options(const HostAddr& host, const BrokerOptions& options,
                                     uid_t user) {
  return {.admission = {.host = host,
                        .uid = user,
                        .insecure = options.insecure,
                        .protocol = options.protocol},
          .tokens = options.tokens,
          .limits = {.hello = options.hello_limit, .refused = kRefusedStays}};
}

PeerRegistry::Options registry_options(const HostAddr& host, const BrokerOptions& options) {
  PeerRegistry::Options made;
  made.peer_queue = queue_limits(options.config, 1);
  made.link_queue = queue_limits(options.config, kLinkQueues);
  made.heartbeat = options.config.duration(keys::heartbeat);
  made.welcome.capabilities = options.capabilities;
  made.welcome.release = options.protocol.release;
  made.welcome.host = host.to_string();
  made.welcome.incarnation = options.incarnation;
  made.welcome.heartbeat_ms = static_cast<std::uint32_t>(made.heartbeat.count());
  return made;
}

}  // namespace

/// Makes the parts of a broker and connects them.
/// Large because: it has one member for each part, in the order in which they use each other.
class Broker::Impl {
 public:
  explicit Impl(Reactor& reactor) : reactor_(reactor) {}
  ~Impl() {
    if (turn_end_ != 0) reactor_.forget_turn_end(turn_end_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  Result<void> start(const BrokerOptions& options);
  void stop(const std::string& reason);

  const HostAddr& host() const noexcept { return router_->own().address(); }
  const std::vector<HostAddr>& binds() const noexcept { return listener_->addresses(); }
  std::vector<int> listeners() const { return listener_->listeners(); }
  std::uint64_t incarnation() const noexcept { return router_->own().incarnation(); }
  std::size_t peers() const noexcept { return connections_.size(); }
  bool has_agent() const { return router_->routes().find(host_service(host()).key()) != nullptr; }
  Counters counters() const { return report_->counters(); }
  std::size_t held() const { return report_->held(); }
  void forget_old() {
    links_->forget_refused();
    router_->routes().forget_guests();
  }

 private:
  Result<void> open_keys(const BrokerOptions& options);
  Result<void> open_listener(const BrokerOptions& options);
  Listener::Events listener_events();
  void open_audit(const BrokerOptions& options, const HostAddr& host);
  Result<void> open_observers(const BrokerOptions& options, const HostAddr& host);
  void make_parts(const BrokerOptions& options, const HostAddr& host);
  LinkTable::Events link_events();
  void on_frame(ConnectionId from, std::vector<MessagePart>& parts);
  void on_bad_handshake(const std::string& what);
  void on_key_refused(std::string_view key, std::string_view address, bool is_new);
  /// Sends what there is to send, and ends the peers that turn out to be lost. At the end of each
  /// turn.
  void flush();
  void apply_key_changes();
  void cut_off(Peer& peer, const KeyHolder* holder);

  Reactor& reactor_;
  /// Whose host this is.
  const uid_t own_user_ = ::geteuid();
  Counters counters_;
  ConnectionTable connections_;
  /// Null without keys.
  std::unique_ptr<KeyService> keys_;
  std::unique_ptr<Listener> listener_;
  ToolContext tools_;
  /// Null unless asked for.
  std::unique_ptr<Monitor> monitor_;
  std::unique_ptr<Tap> tap_;
  std::optional<AuditTrail> audit_;
  std::optional<LinkTable> links_;
  std::optional<PeerQueues> queues_;
  std::optional<Router> router_;
  std::optional<CastRelay> relay_;
  std::optional<CastFanout> fanout_;
  std::optional<CastReceiver> casts_;
  std::optional<Watchers> watchers_;
  std::optional<PeerRegistry> registry_;
  std::optional<BrokerRequests> requests_;
  std::optional<FrameIntake> intake_;
  std::optional<Handshake> handshake_;
  std::optional<BrokerReport> report_;
  std::uint64_t turn_end_ = 0;
  log::Limited limited_log_{10};
};

Result<void> Broker::Impl::start(const BrokerOptions& options) {
  const bool may_tcp = options.insecure || options.keys.has_value();
  if (auto checked = check_addresses(options.binds, options.advertise, may_tcp); !checked)
    return checked;
  if (auto opened = open_listener(options); !opened) return opened;
  const HostAddr host = advertised_address(listener_->addresses(), options.advertise);
  if (auto opened = open_observers(options, host); !opened) return opened;
  if (options.become_other_user) {
    if (auto done = options.become_other_user(); !done) return done;
  }
  if (auto opened = open_keys(options); !opened) return opened;
  open_audit(options, host);
  make_parts(options, host);
  turn_end_ = reactor_.add_turn_end([this] { flush(); });
  return {};
}

Result<void> Broker::Impl::open_keys(const BrokerOptions& options) {
  const bool has_tcp = std::any_of(options.binds.begin(), options.binds.end(), is_tcp);
  if (options.insecure || !options.keys || !has_tcp) return {};
  auto opened =
      KeyService::open(reactor_, {.directory = *options.keys, .own_tcp = own_tcp(options)},
                       [this](std::string_view key, std::string_view address, bool is_new) {
                         on_key_refused(key, address, is_new);
                       });
  if (!opened) return fail(opened.error());
  keys_ = std::move(*opened);
  listener_->set_keys(keys_->own());
  return {};
}

Result<void> Broker::Impl::open_listener(const BrokerOptions& options) {
  const std::chrono::milliseconds heartbeat = options.config.duration(keys::heartbeat);
  KeptListeners none;
  KeptListeners& kept = options.kept ? *options.kept : none;
  auto opened =
      Listener::open(reactor_, options.binds, kept,
                     {.silence = std::max(3 * heartbeat, kLeastSilence),
                      .handshake = options.hello_limit,
                      .connections_per_second = options.config.count(keys::connections_rate),
                      .connections_per_key = options.config.count(keys::connections_per_key)},
                     listener_events());
  if (!opened) return fail(opened.error());
  listener_ = std::move(*opened);
  return options.bind_procs ? listener_->bind_for_procs(*options.bind_procs, kept) : Result<void>();
}

Listener::Events Broker::Impl::listener_events() {
  Listener::Events events;
  events.on_frame = [this](ConnectionId from, std::vector<MessagePart>& parts) {
    on_frame(from, parts);
  };
  events.on_accepted = [this](int descriptor) { handshake_->on_opened(descriptor); };
  events.judge = [this](std::string_view key, std::string_view address, bool may_wait) {
    return keys_->judge(key, address, may_wait);
  };
  events.on_ended = [this](ConnectionId connection, int descriptor, const std::string& why) {
    handshake_->on_done(connection, descriptor);
    if (Peer* peer = connections_.find(connection)) registry_->end(*peer, why);
  };
  events.on_writable = [this](ConnectionId connection) {
    if (Peer* peer = connections_.find(connection)) queues_->unblock(*peer);
  };
  events.on_bad_handshake = [this](const std::string& what) { on_bad_handshake(what); };
  return events;
}

Result<void> Broker::Impl::open_observers(const BrokerOptions& options, const HostAddr& host) {
  const Monitor::Speaker speaker{.host = host, .incarnation = options.incarnation};
  if (options.monitor) {
    auto opened = Monitor::open(reactor_, tools_, *options.monitor, speaker,
                                {.counters = [this] { return report_->counters_event(); },
                                 .slow = [this] { return report_->queues(kSlow); }});
    if (!opened) return fail(opened.error());
    monitor_ = std::move(*opened);
  }
  if (options.tap) {
    auto opened = Tap::open(reactor_, tools_, *options.tap, speaker,
                            [this](std::uint64_t key) { return report_->name_of(key); });
    if (!opened) return fail(opened.error());
    tap_ = std::move(*opened);
  }
  return {};
}

void Broker::Impl::open_audit(const BrokerOptions& options, const HostAddr& host) {
  if (options.audit.empty()) return;
  auto opened = EventLog::open(options.audit, options.config.bytes(keys::audit_size),
                               options.config.flag(keys::audit_sync));
  if (opened) {
    audit_.emplace(std::move(*opened), host, [this] { return reactor_.now(); });
  } else {
    // A host without a trail is better than none.
    log::error(opened.error().detail() + "; this host keeps no audit trail");
  }
}

void Broker::Impl::make_parts(const BrokerOptions& options, const HostAddr& host) {
  Monitor* monitor = monitor_.get();
  const std::chrono::milliseconds delivery_limit = options.config.duration(keys::delivery_limit);
  links_.emplace(reactor_, counters_, monitor, link_options(host, options), link_events());
  queues_.emplace(reactor_, *listener_, connections_, *links_, counters_);
  router_.emplace(reactor_, *queues_, *links_, counters_, monitor, tap_.get(),
                  router_options(host, options));
  relay_.emplace(reactor_, *router_, *links_, counters_,
                 CastRelay::Options{.width = options.config.count(keys::cast_width),
                                    .delivery_limit = delivery_limit});
  fanout_.emplace(*router_, *queues_, *links_, *relay_, counters_);
  casts_.emplace(reactor_, *router_, *fanout_, *relay_, counters_, delivery_limit);
  watchers_.emplace(reactor_, *router_);
  registry_.emplace(reactor_, *listener_, connections_, *queues_, *router_, *links_, *watchers_,
                    monitor, registry_options(host, options));
  if (options.config.flag(keys::direct_paths)) {
    registry_->set_direct(true);
    // What goes by a direct path is not seen here.
    if (tap_) tap_->on_change([this] { registry_->set_direct(!tap_->is_wanted()); });
  }
  AuditTrail* audit = audit_ ? &*audit_ : nullptr;
  const LinkChaos chaos(reactor_, *links_,
                        {.is_allowed = options.config.flag(keys::chaos_allowed),
                         .longest = options.config.duration(keys::chaos_longest),
                         .most = options.config.count(keys::chaos_most),
                         .own_host = host.to_string()});
  requests_.emplace(*router_, *links_, *registry_, *watchers_, counters_, audit, chaos, [this] {
    wire::HostStateT state;
    state.host = router_->own().address().to_string();
    state.incarnation = router_->own().incarnation();
    state.broker = std::make_unique<wire::BrokerStateT>(report_->state());
    return state;
  });
  intake_.emplace(reactor_, *router_, *queues_, *links_, *casts_, *requests_, counters_, audit,
                  options.config.count(keys::requests_rate));
  handshake_.emplace(reactor_, *listener_, connections_, *router_, *links_, counters_, keys_.get(),
                     monitor, audit, handshake_options(host, options, own_user_));
  report_.emplace(reactor_, *listener_, connections_, *router_, *links_, *casts_, counters_);
}

LinkTable::Events Broker::Impl::link_events() {
  return {.on_message =
              [this](Link& link, const FrameReader::Message& message) {
                intake_->on_link_message(link, message);
              },
          .send = [this](Peer& peer, Frame& frame) { return queues_->send(peer, frame); },
          .on_superseded = [this](Peer& peer) { queues_->lose(peer); }};
}

void Broker::Impl::on_frame(ConnectionId from, std::vector<MessagePart>& parts) {
  if (Peer* peer = connections_.find(from)) return intake_->on_frame(*peer, parts);
  auto admitted = handshake_->on_frame(from, parts);
  if (!admitted) return;
  handshake_->on_done(from, admitted->connection.descriptor);
  Peer& peer = registry_->add(*admitted);
  intake_->read(peer, admitted->rest);
}

void Broker::Impl::on_bad_handshake(const std::string& what) {
  ++counters_.refused_handshakes;
  limited_log_.info(what);
}

void Broker::Impl::on_key_refused(std::string_view key, std::string_view address, bool is_new) {
  ++counters_.refused_keys;
  if (!is_new) return;
  if (audit_)
    audit_->note({.by = "key " + std::string(key), .address = std::string(address)}, "connect", {},
                 "refused: this key is not authorised");
  limited_log_.warn("a connection from " + std::string(address) + " is refused: its key " +
                    std::string(key) + " is not in " + keys_->directory().path() + "/authorised/");
  if (monitor_ == nullptr) return;
  monitor_->peer_refused(
      Error(ErrorCode::unauthorised, "key " + std::string(key) + " of " + std::string(address)));
}

void Broker::Impl::flush() {
  apply_key_changes();
  // A peer that turns out to be lost has its messages returned, which makes more to send.
  do {
    for (Peer* lost : queues_->flush()) registry_->end(*lost, "its connection ended");
    links_->flush();
    router_->return_given_up();
  } while (queues_->has_work() || links_->has_work());
}

void Broker::Impl::apply_key_changes() {
  if (keys_ == nullptr) return;
  const KeyService::Changes changes = keys_->take_changes();
  if (changes.own) listener_->set_keys(*changes.own);
  if (changes.has_looked) listener_->ask_again();
  if (!changes.has_ring_changed) return;
  for (const auto& [id, peer] : connections_.all()) {
    if (peer->is_ended || peer->identity.key_text.empty()) continue;
    const KeyHolder* holder = keys_->find(peer->identity.key_text);
    if (holder == nullptr || !is_still(*holder, peer->identity)) cut_off(*peer, holder);
  }
  links_->check_keys();
}

void Broker::Impl::cut_off(Peer& peer, const KeyHolder* holder) {
  std::string why = "its key is no longer authorised";
  if (holder != nullptr && holder->is_expired) {
    why = holder->expiry_text();
  } else if (holder != nullptr && holder->to_string() != peer.identity.user) {
    why = "its key is now that of " + holder->to_string();
  } else if (holder != nullptr) {
    why = "the ceiling of its key is another one now";
  }
  log::warn(peer.identity.text + " is cut off: " + why + " (it was that of " + peer.identity.user +
            ")");
  const int descriptor = peer.descriptor;
  registry_->end(peer, "its key was revoked");
  // It comes back with another key, or hears in its handshake that this one is not taken.
  if (descriptor >= 0) ::shutdown(descriptor, SHUT_RDWR);
}

void Broker::Impl::stop(const std::string& reason) {
  wire::ByeT bye;
  bye.reason = cut_text(reason);
  const std::string body = encode_control({}, std::move(bye));
  // From here on nothing is full.
  listener_->set_linger(kFarewell);
  for (const auto& [id, peer] : connections_.all()) {
    if (peer->is_ended) continue;
    queues_->unblock(*peer);
    router_->originate_to(*peer, body);
  }
  links_->close(reason);
  flush();
  log::debug("messages: " + counters().to_string());
}

Result<std::unique_ptr<Broker>> Broker::start(Reactor& reactor, BrokerOptions options) {
  if (options.incarnation == 0) options.incarnation = random_u64();
  auto impl = std::make_unique<Impl>(reactor);
  if (auto started = impl->start(options); !started) return fail(started.error());
  return std::unique_ptr<Broker>(new Broker(std::move(impl)));
}

Broker::Broker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Broker::~Broker() = default;

const HostAddr& Broker::address() const noexcept {
  return impl_->host();
}
const std::vector<HostAddr>& Broker::binds() const noexcept {
  return impl_->binds();
}

std::vector<int> Broker::listeners() const {
  return impl_->listeners();
}
std::uint64_t Broker::incarnation() const noexcept {
  return impl_->incarnation();
}
std::size_t Broker::peers() const noexcept {
  return impl_->peers();
}
bool Broker::has_agent() const {
  return impl_->has_agent();
}
Counters Broker::counters() const {
  return impl_->counters();
}
std::size_t Broker::held() const {
  return impl_->held();
}
void Broker::forget_old() {
  impl_->forget_old();
}
void Broker::stop(const std::string& reason) {
  impl_->stop(reason);
}

}  // namespace meshbus
