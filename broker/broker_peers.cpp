// How peers come in and leave.
#include <sys/socket.h>

#include <array>

#include "broker/broker_impl.h"

#include "wire/bus_generated.h"

namespace meshbus {
namespace {

/// So long messages are taken from a connection that has ended: libzmq tells of the end before it
/// hands out the last ones.
constexpr std::chrono::milliseconds kDeadIdValid{100};
/// After this, and once all that had come by then is taken, those who watch it are told; but no
/// later than the second.
constexpr std::chrono::milliseconds kLastWords{1};
constexpr std::chrono::milliseconds kLastWordsAtMost{50};
constexpr std::chrono::milliseconds kLookAtStrangers{250};
constexpr std::array<std::chrono::milliseconds, 2> kProbes{std::chrono::milliseconds(5),
                                                           std::chrono::milliseconds(50)};

}  // namespace

void Broker::Impl::refuse_stranger(const Stranger& stranger, const Error& error) {
  ++forwarder_->counters().refused_hellos;
  limited_log_.warn("a peer is refused: " + cut_text(error.to_string()));
  if (monitor_) monitor_->peer_refused(error);
  refused_.add(stranger.connection, 0);
  strangers_.refused(stranger.descriptor, reactor_.now());
  wire::RefusalT refusal;
  refusal.code = to_wire(error.code());
  refusal.detail = cut_text(error.detail());
  send_at_once(stranger.connection, encode_control({}, std::move(refusal)));
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
  listener->send_behind(connection, frame);
}

void Broker::Impl::register_peer(Identity identity) {
  const Outbox::Limits limits = queue_limits(options.config, identity.is_link());
  auto made = std::make_unique<Peer>(std::move(identity), stranger_->connection,
                                     stranger_->descriptor, limits);
  Peer& peer = *made;
  connections.emplace(peer.connection, std::move(made));
  if (peer.descriptor >= 0) descriptors_[peer.descriptor] = peer.connection;
  strangers_.left(peer.descriptor);
  // Was it this very connection that ended, between its Hello and now, or one that had the
  // descriptor before? A send will tell.
  if (unknown_ends_.erase(peer.descriptor) > 0) {
    for (const auto delay : kProbes) {
      reactor_.after(delay,
                     [this, connection = peer.connection, alive = std::weak_ptr<void>(alive_)] {
                       if (alive.expired()) return;
                       const auto at = connections.find(connection);
                       if (at != connections.end() && !at->second->is_ended)
                         forwarder_->originate_to(*at->second, heartbeat_body_);
                     });
    }
  }
  stranger_->registered = &peer;
  peer.last_sent = reactor_.now();
  log::debug("registered " + peer.identity.text + " (" +
             wire::EnumNamePeerKind(peer.identity.kind) + ", " + stranger_->credentials.address +
             ")");

  if (monitor_) monitor_->peer_up(peer.identity);
  if (peer.identity.is_link()) {
    welcome(peer);
    forwarder_->find_link(peer.identity.key)->attach(peer);
    // Another session of the same broker ends: there is one inbound link per host.
    for (auto& [id, other] : connections) {
      if (other.get() != &peer && other->identity.key == peer.identity.key && !other->is_ended)
        end_peer(*other, "its broker opened another link");
    }
    return;
  }
  Peer* replaced = routes_.add(peer);
  welcome(peer);
  if (replaced != nullptr) {
    if (replaced->identity.incarnation == peer.identity.incarnation) {
      forwarder_->move_outbox(*replaced, peer);
    } else {
      forwarder_->return_outbox(
          *replaced, Error(ErrorCode::no_such_proc, "this life of " + peer.identity.text +
                                                        " is over; another one has registered"));
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
  welcome.version = peer.identity.version;
  welcome.capabilities = options.capabilities;
  welcome.release = options.protocol.release;
  welcome.host = host->to_string();
  welcome.incarnation = incarnation;
  welcome.role = peer.identity.role;
  welcome.heartbeat_ms = static_cast<std::uint32_t>(heartbeat_.count());
  forwarder_->originate_to(peer, encode_control({}, std::move(welcome)));
}

void Broker::Impl::on_accepted(int descriptor) {
  strangers_.came(descriptor, reactor_.now());
  if (hang_up_timer_ == 0)
    hang_up_timer_ = reactor_.after(kLookAtStrangers, [this] { on_hang_up_timer(); });
}

void Broker::Impl::on_hang_up_timer() {
  hang_up_timer_ = 0;
  // Who has ended by now had the descriptor, and may have said Hello in what is not read yet.
  listener->drain_monitor();
  for (const int descriptor : strangers_.overdue(reactor_.now())) {
    if (!descriptors_.contains(descriptor)) ::shutdown(descriptor, SHUT_RDWR);
  }
  if (!strangers_.empty())
    hang_up_timer_ = reactor_.after(kLookAtStrangers, [this] { on_hang_up_timer(); });
}

void Broker::Impl::on_disconnected(int descriptor) {
  strangers_.left(descriptor);
  const auto found = descriptors_.find(descriptor);
  if (found == descriptors_.end()) {
    unknown_ends_.insert(descriptor);
    return;
  }
  const ConnectionId connection = found->second;
  descriptors_.erase(found);
  if (const auto peer = connections.find(connection); peer != connections.end())
    end_peer(*peer->second, "its connection ended");
}

void Broker::Impl::on_ended(ConnectionId connection, int descriptor, const std::string& why) {
  strangers_.left(descriptor);
  if (const auto peer = connections.find(connection); peer != connections.end())
    end_peer(*peer->second, why);
}

void Broker::Impl::end_peer(Peer& peer, const std::string& reason, bool is_last) {
  if (peer.is_ended) return;
  peer.is_ended = true;
  ++ended;
  const Identity& who = peer.identity;
  log::debug(who.text + " has left: " + reason);
  if (monitor_) monitor_->peer_down(who, reason);
  if (const auto at = descriptors_.find(peer.descriptor);
      at != descriptors_.end() && at->second == peer.connection)
    descriptors_.erase(at);
  if (who.is_link()) {
    if (Link* link = forwarder_->find_link(who.key)) link->detach(peer, is_last);
    forwarder_->return_outbox(
        peer, Error(ErrorCode::link_lost, "the link to " + who.text + " is lost: " + reason));
  } else {
    routes_.remove(peer);
    forwarder_->return_outbox(peer,
                              Error(ErrorCode::no_such_proc, who.text + " has left: " + reason));
    tell_watchers_later(who, reactor_.now(), reason);
  }
  destroy_later(peer.connection);
}

void Broker::Impl::tell_watchers_later(const Identity& identity, Reactor::Time since,
                                       const std::string& reason) {
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

void Broker::Impl::tell_gone(const WatchList::Watcher& watcher, const std::string& proc,
                             std::uint64_t life, const std::string& reason) {
  wire::GoneT gone;
  gone.proc = proc;
  gone.incarnation = life;
  gone.reason = cut_text(reason);
  forwarder_->originate(watcher.proc, watcher.host,
                        encode_control({.id = watcher.request}, std::move(gone)));
}

void Broker::Impl::on_heartbeat_timer() {
  const auto now = reactor_.now();
  for (auto& [id, peer] : connections) {
    // Data that waits for credit is no sign of life.
    if (!peer->is_ended && peer->outbox.empty(wire::Lane::control) &&
        now - peer->last_sent >= heartbeat_ / 2)
      forwarder_->originate_to(*peer, heartbeat_body_);
  }
  heartbeat_timer_ = reactor_.after(heartbeat_ / 4, [this] { on_heartbeat_timer(); });
}

}  // namespace meshbus
