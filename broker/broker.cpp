#include "broker/broker.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "broker/access/host_address.h"
#include "broker/broker_impl.h"
#include "common/security/token.h"
#include "wire/bus_generated.h"

namespace meshbus {
namespace {

/// All messages together that wait for procs which have not registered yet.
constexpr std::size_t kWaitingBytes = 16 * 1024 * 1024;
constexpr std::size_t kWaitingCount = 65536;
/// A link carries what many peers send: it has room for so many times as much as one peer.
constexpr std::size_t kLinkQueues = 4;
constexpr std::chrono::milliseconds kFarewell{200};
/// However short the heartbeat: so long a connection over tcp may give no answer.
constexpr std::chrono::milliseconds kLeastSilence{1500};
/// For reading why one was refused.
constexpr std::chrono::milliseconds kRefusedStays{1000};
/// What may be asked at once after a pause, in seconds' worth.
constexpr std::uint64_t kRequestsAtOnce = 10;

Forwarder::Options forwarder_options(const HostAddr& host, const BrokerOptions& options,
                                     std::uint64_t incarnation) {
  const Config& config = options.config;
  return {.host = host,
          .incarnation = incarnation,
          .insecure = options.insecure,
          .keys = options.keys,
          .hop_limit = static_cast<std::uint8_t>(
              std::min<std::uint64_t>(config.count(keys::hop_limit), 255)),
          .cast_width = config.count(keys::cast_width),
          .link_queue = queue_limits(config, /*is_link=*/true),
          .waiting = {.wait = config.duration(keys::delivery_starting),
                      .bytes = kWaitingBytes,
                      .count = kWaitingCount},
          .link_connect_limit = options.link_connect_limit,
          .delivery_limit = config.duration(keys::delivery_limit),
          .protocol = options.protocol,
          .capabilities = options.capabilities};
}

}  // namespace

Outbox::Limits queue_limits(const Config& config, bool is_link) {
  const std::size_t queues = is_link ? kLinkQueues : 1;
  return {.bytes = config.bytes(keys::queue_bytes) * queues,
          .count = config.count(keys::queue_count) * queues};
}

Broker::Impl::Impl(Reactor& reactor, BrokerOptions given)
    : options(std::move(given)),
      incarnation(options.incarnation != 0 ? options.incarnation : random_u64()),
      reactor_(reactor),
      strangers_({.hello = options.hello_limit, .refused = kRefusedStays}),
      requests_(options.config.count(keys::requests_rate),
                options.config.count(keys::requests_rate) * kRequestsAtOnce),
      heartbeat_(options.config.duration(keys::heartbeat)) {
  handlers_.on<wire::Hello>(Role::none, std::bind_front(&Impl::on_hello, this))
      .on<wire::Heartbeat>(Role::observe, [](const Request&, const wire::Heartbeat&) {})
      .on<wire::Bye>(Role::observe, std::bind_front(&Impl::on_bye, this))
      .on<wire::Introduce>(Role::observe, std::bind_front(&Impl::on_introduce, this))
      .on<wire::Watch>(Role::observe, std::bind_front(&Impl::on_watch, this));
}

Broker::Impl::~Impl() {
  reactor_.cancel(heartbeat_timer_);
  reactor_.cancel(keys_timer_);
  reactor_.cancel(strangers_timer_);
  reactor_.cancel(hang_up_timer_);
  if (turn_end_ != 0) reactor_.forget_turn_end(turn_end_);
}

Result<void> Broker::Impl::start(zmq::context_t& context) {
  if (auto checked = check_addresses(options.binds, options.advertise,
                                     options.insecure || options.keys.has_value());
      !checked)
    return checked;
  Listener::Events events;
  events.on_frame = [this](ConnectionId from, std::vector<zmq::message_t>& parts) {
    on_frame(from, parts);
  };
  events.on_accepted = [this](int descriptor) { on_accepted(descriptor); };
  events.on_disconnected = [this](int descriptor) { on_disconnected(descriptor); };
  events.on_ended = [this](ConnectionId connection, int descriptor, const std::string& why) {
    on_ended(connection, descriptor, why);
  };
  events.on_writable = [this](ConnectionId connection) {
    if (const auto peer = connections.find(connection); peer != connections.end())
      forwarder_->unblock(*peer->second);
  };
  events.on_bad_handshake = [this](const std::string& what) {
    ++bad_handshakes;
    limited_log_.info(what);
  };
  auto own = open_keys(context);
  if (!own) return fail(own.error());
  auto opened = Listener::open(
      reactor_, context, options.binds,
      {.silence = std::max(3 * heartbeat_, kLeastSilence), .handshake = options.hello_limit}, *own,
      std::move(events));
  if (!opened) return fail(opened.error());
  listener = std::move(*opened);
  host = advertised_address(listener->addresses(), options.advertise);

  admission_.emplace(Admission::Options{.host = *host,
                                        .uid = ::geteuid(),
                                        .insecure = options.insecure,
                                        .protocol = options.protocol},
                     options.tokens);

  Forwarder::Events forwarding;
  forwarding.on_own = [this](const wire::Envelope& envelope, Bytes body) {
    on_own(envelope, body);
  };
  forwarding.on_link_message = [this](Link& link, const FrameReader::Message& message) {
    on_link_message(link.key(), link.incarnation(), message);
  };
  forwarding.on_lost = [this](Peer& peer) { end_peer(peer, "its connection ended"); };
  forwarding.on_released = [this](ConnectionId connection, std::size_t bytes) {
    on_released(connection, bytes);
  };
  forwarder_ = std::make_unique<Forwarder>(reactor_, context, routes_,
                                           forwarder_options(*host, options, incarnation),
                                           std::move(forwarding));
  forwarder_->set_listener(*listener);
  if (auto monitored = open_monitor(context); !monitored) return monitored;
  if (auto tapped = open_tap(context); !tapped) return tapped;
  turn_end_ = reactor_.add_turn_end([this] { forwarder_->flush(); });
  heartbeat_timer_ = reactor_.after(heartbeat_ / 4, [this] { on_heartbeat_timer(); });
  return {};
}

void Broker::Impl::stop(const std::string& reason) {
  wire::ByeT bye;
  bye.reason = cut_text(reason);
  const std::string body = encode_control({}, std::move(bye));
  // From here on nothing is full.
  listener->set_linger(kFarewell);
  for (auto& [id, peer] : connections) {
    if (peer->is_ended) continue;
    forwarder_->unblock(*peer);
    forwarder_->originate_to(*peer, body);
  }
  forwarder_->close_links(reason);
  forwarder_->flush();
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
  counters.refused_handshakes = bad_handshakes;
  return counters;
}

Result<std::unique_ptr<Broker>> Broker::start(Reactor& reactor, zmq::context_t& context,
                                              BrokerOptions options) {
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
