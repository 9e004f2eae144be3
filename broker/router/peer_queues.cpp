#include "broker/router/peer_queues.h"

#include <algorithm>

namespace meshbus {
namespace {

/// Bytes of control that a peer's socket is given while nothing is heard from it. A peer that reads
/// sends a frame long before (common/bus/session.cpp).
constexpr std::uint64_t kControlWindow = 4 * 1024 * 1024;
constexpr std::chrono::milliseconds kRetry{1};

}  // namespace

PeerQueues::PeerQueues(Reactor& reactor, Listener& listener, ConnectionTable& connections,
                       LinkTable& links, Counters& counters)
    : reactor_(reactor),
      listener_(listener),
      connections_(connections),
      links_(links),
      counters_(counters) {}

PeerQueues::~PeerQueues() {
  reactor_.cancel(retry_timer_);
  reactor_.cancel(stall_timer_);
}

bool PeerQueues::push(Peer& peer, const wire::Envelope& envelope, Bytes body, MessagePart* detached,
                      Charge& charge) {
  bool is_queued = peer.outbox.push(envelope, body, detached, charge);
  if (!is_queued && !peer.sending.is_blocked) {
    // One turn may bring more than a queue holds for a peer that reads well.
    flush(peer);
    is_queued = !peer.sending.is_lost && peer.outbox.push(envelope, body, detached, charge);
  }
  if (is_queued) {
    touch(peer);
  } else if (charge.is_due()) {
    refused_.add(charge, charge.bytes);
    arm_stall_timer();
  }
  return is_queued;
}

void PeerQueues::touch(Peer& peer) {
  if (peer.sending.is_touched || peer.sending.is_blocked) return;
  peer.sending.is_touched = true;
  touched_.push_back(&peer);
}

void PeerQueues::unblock(Peer& peer) {
  peer.sending.is_blocked = false;
  // What did not leave may be credit alone.
  touch(peer);
}

void PeerQueues::lose(Peer& peer) {
  if (!peer.is_ended && !std::exchange(peer.sending.is_lost, true)) lost_.push_back(&peer);
}

void PeerQueues::on_heard(Peer& peer, std::uint64_t credit) {
  if (credit > peer.window.credit) {
    peer.window.credit = std::min(credit, peer.window.sent);
    // It takes something, though not enough for the next frame.
    Reactor::Time& since = peer.sending.stalled_since;
    if (since != Reactor::Time{}) since = reactor_.now();
    touch(peer);
  }
  if (peer.window.control_unheard > 0) {
    peer.window.control_unheard = 0;
    if (!peer.outbox.empty()) touch(peer);
  }
}

void PeerQueues::give_credit(Peer& peer, std::size_t bytes) {
  peer.window.taken += bytes;
  if (peer.window.is_announcement_due() && !peer.is_ended) touch(peer);
}

void PeerQueues::release(const Charge& charge) {
  if (charge.has_sender() && charge.is_due()) release(charge.sender, charge.bytes);
}

void PeerQueues::release(ConnectionId sender, std::size_t bytes) {
  if (CastCredits::is_account(sender)) {
    if (const auto cast = cast_credits_.release(sender, bytes)) release(*cast);
  } else if (Peer* peer = connections_.find(sender)) {
    give_credit(*peer, bytes);
  }
}

std::vector<Peer*> PeerQueues::flush() {
  // What leaves gives its senders credit, which touches them.
  while (!touched_.empty()) {
    for (Peer* peer : std::exchange(touched_, {})) {
      peer->sending.is_touched = false;
      flush(*peer);
    }
  }
  if (!blocked_.empty()) arm_retry();
  return std::exchange(lost_, {});
}

void PeerQueues::flush(Peer& peer) {
  SendState& sending = peer.sending;
  CreditWindow& window = peer.window;
  if (peer.is_ended || sending.is_lost || sending.is_blocked) return;
  while (Frame* frame = peer.outbox.front()) {
    const bool is_data = frame->lane == wire::Lane::data;
    // Credit comes with a frame of the peer, which touches it.
    const bool may_leave = is_data ? is_within_window(window.sent - window.credit, frame->bytes)
                                   : window.control_unheard < kControlWindow;
    if (!may_leave || !hand_over(peer, *frame)) {
      watch_stall(peer);
      break;
    }
    (is_data ? window.sent : window.control_unheard) += frame->bytes;
    counters_.delivered += frame->count;
    peer.outbox.pop(releasing());
    // A heartbeat that leaves past data that waits is no progress.
    if (is_data || peer.outbox.empty(wire::Lane::data)) sending.stalled_since = {};
  }
  if (sending.is_lost || sending.is_blocked || !window.is_announcement_due() ||
      peer.identity.is_link())
    return;
  Frame credit = FrameWriter(wire::Lane::control).finish();
  hand_over(peer, credit);
}

bool PeerQueues::hand_over(Peer& peer, Frame& frame) {
  frame.set_credit(peer.window.taken);
  if (peer.identity.is_link()) {
    const Link* link = links_.find(peer.identity.key);
    frame.set_link(0, link == nullptr ? 0 : link->taken());
  }
  switch (listener_.send(peer.connection, frame)) {
    case Listener::Sent::yes:
      peer.window.announced = peer.window.taken;
      peer.sending.last_sent = reactor_.now();
      return true;
    case Listener::Sent::full:
      if (!std::exchange(peer.sending.is_blocked, true) && !Listener::is_local(peer.connection))
        blocked_.push_back(&peer);
      return false;
    case Listener::Sent::gone: lose(peer); return false;
  }
  return false;
}

Listener::Sent PeerQueues::send(Peer& peer, Frame& frame) {
  // Welcome comes first.
  flush(peer);
  if (peer.is_ended || peer.sending.is_lost) return Listener::Sent::gone;
  if (!peer.outbox.empty()) return Listener::Sent::full;
  frame.set_credit(peer.window.taken);
  const auto sent = listener_.send(peer.connection, frame);
  if (sent == Listener::Sent::yes) peer.sending.last_sent = reactor_.now();
  if (sent == Listener::Sent::gone) lose(peer);
  return sent;
}

void PeerQueues::watch_stall(Peer& peer) {
  if (peer.sending.is_lost || peer.sending.stalled_since != Reactor::Time{}) return;
  peer.sending.stalled_since = reactor_.now();
  if (!std::exchange(peer.sending.is_watched, true)) stalling_.push_back(&peer);
  arm_stall_timer();
}

void PeerQueues::arm_stall_timer() {
  if (stall_timer_ == 0) stall_timer_ = reactor_.after(kStallLimit, [this] { on_stall_timer(); });
}

void PeerQueues::on_stall_timer() {
  stall_timer_ = 0;
  refused_.release(SIZE_MAX, releasing());
  std::erase_if(stalling_, [](Peer* peer) {
    peer->sending.is_watched = peer->sending.stalled_since != Reactor::Time{};
    return !peer->sending.is_watched;
  });
  for (Peer* peer : stalling_) {
    if (is_stalled(*peer)) peer->outbox.write_off(releasing());
  }
  if (!stalling_.empty()) arm_stall_timer();
}

bool PeerQueues::is_stalled(const Peer& peer) const {
  const Reactor::Time since = peer.sending.stalled_since;
  return since != Reactor::Time{} && reactor_.now() - since >= kStallLimit;
}

void PeerQueues::arm_retry() {
  if (retry_timer_ != 0) return;
  retry_timer_ = reactor_.after(kRetry, [this] {
    retry_timer_ = 0;
    for (Peer* peer : std::exchange(blocked_, {})) unblock(*peer);
  });
}

std::vector<wire::Envelope> PeerQueues::take_all(Peer& peer) {
  std::vector<wire::Envelope> taken;
  peer.outbox.take_all([&](const wire::Envelope& envelope, Bytes, const Charge& charge) {
    taken.push_back(envelope);
    release(charge);
  });
  return taken;
}

std::vector<wire::Envelope> PeerQueues::move_all(Peer& from, Peer& to) {
  std::vector<wire::Envelope> left;
  from.outbox.take_all([&](const wire::Envelope& envelope, Bytes body, Charge& charge) {
    if (envelope.destination_proc() == 0 || !to.outbox.push(envelope, body, nullptr, charge))
      left.push_back(envelope);
    release(charge);
  });
  touch(to);
  return left;
}

void PeerQueues::forget(Peer& peer) {
  for (auto* list : {&touched_, &blocked_, &stalling_, &lost_}) std::erase(*list, &peer);
}

}  // namespace meshbus
