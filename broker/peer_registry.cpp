#include "broker/peer_registry.h"

#include <utility>

#include "common/base/log.h"
#include "common/wire/control.h"
#include "common/wire/protocol.h"

namespace meshbus {
namespace {

/// A peer that has ended is forgotten after this.
constexpr std::chrono::milliseconds kDeadIdValid{100};

}  // namespace

PeerRegistry::PeerRegistry(Reactor& reactor, Listener& listener, ConnectionTable& connections,
                           PeerQueues& queues, Router& router, LinkTable& links, Watchers& watchers,
                           Monitor* monitor, Options options)
    : reactor_(reactor),
      listener_(listener),
      connections_(connections),
      queues_(queues),
      router_(router),
      links_(links),
      watchers_(watchers),
      monitor_(monitor),
      options_(std::move(options)),
      heartbeat_body_(encode_control({}, wire::HeartbeatT())) {
  heartbeat_timer_ = reactor_.after(options_.heartbeat / 4, [this] { on_heartbeat_timer(); });
}

PeerRegistry::~PeerRegistry() {
  reactor_.cancel(heartbeat_timer_);
}

Peer& PeerRegistry::add(const Admitted& admitted) {
  const PendingConnection& pending = admitted.connection;
  const bool is_link = admitted.identity.is_link();
  Peer& peer =
      connections_.add(std::make_unique<Peer>(admitted.identity, pending.id, pending.descriptor,
                                              is_link ? options_.link_queue : options_.peer_queue));
  peer.sending.last_sent = reactor_.now();
  log::debug("registered " + peer.identity.text + " (" +
             wire::EnumNamePeerKind(peer.identity.kind) + ", " + pending.credentials.address + ")");
  if (monitor_ != nullptr) monitor_->peer_up(peer.identity);
  if (is_link) {
    add_link(peer);
  } else {
    add_proc(peer);
  }
  return peer;
}

void PeerRegistry::add_link(Peer& peer) {
  welcome(peer);
  Link& link = *links_.find(peer.identity.key);
  Peer* before = link.inbound();
  link.attach(peer);
  // Another session of the same broker ends: there is one inbound link per host.
  if (before != nullptr) end(*before, "its broker opened another link");
}

void PeerRegistry::add_proc(Peer& peer) {
  Peer* replaced = router_.routes().add(peer);
  welcome(peer);
  if (replaced != nullptr) {
    if (replaced->identity.incarnation == peer.identity.incarnation) {
      router_.move_all(*replaced, peer);
    } else {
      router_.return_all(
          *replaced, Error(ErrorCode::no_such_proc, "this incarnation of " + peer.identity.text +
                                                        " is over; another one has registered"));
      wire::ByeT bye;
      bye.reason = "another incarnation of " + peer.identity.text + " has registered";
      FrameWriter writer(wire::Lane::control);
      writer.add(router_.own().session_envelope(), encode_control({}, std::move(bye)));
      Frame frame = writer.finish();
      listener_.send_behind(replaced->connection, frame);
    }
    end(*replaced, "another connection took its place");
  }
  router_.release_waiting(peer.identity.key);
}

void PeerRegistry::welcome(Peer& peer) {
  wire::WelcomeT welcome = options_.welcome;
  welcome.version = peer.identity.version;
  welcome.role = peer.identity.role;
  router_.originate_to(peer, encode_control({}, std::move(welcome)));
  if (is_direct_) tell_rule(peer);
}

void PeerRegistry::tell_rule(Peer& peer) {
  const Identity& identity = peer.identity;
  const bool is_program =
      identity.kind == wire::PeerKind::proc || identity.kind == wire::PeerKind::launcher;
  if (!is_program || (identity.capabilities & kCapabilityDirect) == 0 || peer.is_ended) return;
  wire::DirectRuleT rule;
  rule.is_allowed = is_direct_;
  router_.originate_to(peer, encode_control({}, std::move(rule)));
}

void PeerRegistry::set_direct(bool is_allowed) {
  if (std::exchange(is_direct_, is_allowed) == is_allowed) return;
  for (const auto& [id, peer] : connections_.all()) tell_rule(*peer);
}

void PeerRegistry::end(Peer& peer, const std::string& reason, bool is_last) {
  if (!connections_.end(peer)) return;
  const Identity& identity = peer.identity;
  log::debug(identity.text + " has left: " + reason);
  if (monitor_ != nullptr) monitor_->peer_down(identity, reason);
  if (identity.is_link()) {
    if (Link* link = links_.find(identity.key)) link->detach(peer, is_last);
    router_.return_all(
        peer, Error(ErrorCode::link_lost, "the link to " + identity.text + " is lost: " + reason));
  } else {
    router_.routes().remove(peer);
    router_.return_all(peer,
                       Error(ErrorCode::no_such_proc, identity.text + " has left: " + reason));
    watchers_.on_end(identity, reason);
  }
  destroy_later(peer.connection);
}

void PeerRegistry::destroy_later(ConnectionId connection) {
  reactor_.after(kDeadIdValid, [this, connection, alive = std::weak_ptr<void>(alive_)] {
    if (alive.expired()) return;
    Peer* peer = connections_.find(connection);
    if (peer == nullptr) return;
    queues_.forget(*peer);
    connections_.erase(*peer);
  });
}

void PeerRegistry::on_heartbeat_timer() {
  const auto now = reactor_.now();
  for (const auto& [id, peer] : connections_.all()) {
    // Data that waits for credit keeps nothing alive.
    if (!peer->is_ended && peer->outbox.empty(wire::Lane::control) &&
        now - peer->sending.last_sent >= options_.heartbeat / 2)
      router_.originate_to(*peer, heartbeat_body_);
  }
  heartbeat_timer_ = reactor_.after(options_.heartbeat / 4, [this] { on_heartbeat_timer(); });
}

}  // namespace meshbus
