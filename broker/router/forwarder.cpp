#include "broker/router/forwarder.h"

#include <algorithm>
#include <utility>

#include "broker/access/dial_policy.h"
#include "broker/observe/tap.h"
#include "common/base/log.h"
#include "common/bus/cast.h"
#include "common/wire/control.h"
#include "wire/bus_generated.h"

namespace meshbus {
namespace {

/// Bytes of control that a peer's socket is given while nothing is heard from it. One who reads
/// speaks long before (common/bus/session.cpp).
constexpr std::uint64_t kControlWindow = 4 * 1024 * 1024;
constexpr std::chrono::milliseconds kRetry{1};
/// Bodies of casts that go by other hosts and have not reached all; beyond that each host is sent
/// its own.
constexpr std::size_t kRelayBytes = 32 * 1024 * 1024;
/// What waits for such bodies, and bodies that wait for their casts.
constexpr std::size_t kArrivalBytes = 64 * 1024 * 1024;
constexpr std::size_t kArrivalCount = 65536;

std::string hex(std::uint64_t key) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 60; shift >= 0; shift -= 4) text += digits[(key >> shift) & 0xf];
  return text;
}

/// What a broker says itself is short: its texts are cut. One that is not would be a malformed
/// frame to its receiver.
bool is_sendable(const std::string& body) {
  if (body.size() <= kBodyLimit) return true;
  log::error("a message of the broker itself has " + std::to_string(body.size()) +
             " bytes, above the limit of " + std::to_string(kBodyLimit) + ", and is dropped");
  return false;
}

}  // namespace

Forwarder::Forwarder(Reactor& reactor, zmq::context_t& context, RouteTable& routes, Options options,
                     Events events)
    : reactor_(reactor),
      context_(context),
      routes_(routes),
      options_(std::move(options)),
      events_(std::move(events)),
      own_key_(options_.host.key()),
      controller_key_(ProcId(options_.host, ProcName(Name::controller())).key()),
      resolver_(reactor),
      waiting_(options_.waiting),
      link_memories_(4 * kMostLinks),
      relays_({.bytes = kRelayBytes, .limit = options_.delivery_limit}),
      arrivals_({.bytes = kArrivalBytes, .count = kArrivalCount, .wait = options_.delivery_limit}) {
}

Forwarder::~Forwarder() {
  reactor_.cancel(expiry_timer_);
  reactor_.cancel(retry_timer_);
  reactor_.cancel(patience_timer_);
  reactor_.cancel(relay_timer_);
}

bool Forwarder::forward(wire::Envelope& envelope, Bytes body, zmq::message_t* apart,
                        std::uint64_t debtor) {
  ++counters_.received;
  if (envelope.hop() >= options_.hop_limit) {
    give_back(envelope,
              Error(ErrorCode::expired, "the message passed " + std::to_string(envelope.hop()) +
                                            " brokers, the limit (hop.limit)"));
    return false;
  }
  envelope.mutate_hop(static_cast<std::uint8_t>(envelope.hop() + 1));
  if (envelope.source_host() != own_key_ && envelope.lane() == wire::Lane::data &&
      ((envelope.flags() & kFlagElsewhere) != 0 || !arrivals_.empty()) &&
      hold(envelope, body, apart)) {
    return false;
  }
  return deliver(envelope, body, apart, debtor);
}

bool Forwarder::deliver(const wire::Envelope& envelope, Bytes body, zmq::message_t* apart,
                        std::uint64_t debtor) {
  if (tap_ != nullptr) [[unlikely]]
    tap_->copy(envelope, body);
  const std::uint64_t host = envelope.destination_host();
  if (host == 0 || host == own_key_) return deliver_local(envelope, body, apart, debtor);
  if (envelope.source_host() != own_key_) {
    give_back(envelope,
              Error(ErrorCode::no_such_host,
                    "this is " + options_.host.to_string() +
                        ", which passes nothing on between other hosts (key " + hex(host) + ")"));
    return false;
  }
  const auto link = links_.find(host);
  if (link == links_.end()) {
    const Error* refused = refused_hosts_.find(host);
    give_back(envelope, refused != nullptr ? *refused
                                           : Error(ErrorCode::no_such_host,
                                                   "the broker of " + options_.host.to_string() +
                                                       " knows no host of key " + hex(host) +
                                                       ": nobody has introduced it"));
    return false;
  }
  if (const auto may = may_use(*link->second, debtor); !may) {
    give_back(envelope, may.error());
    return false;
  }
  if (!link->second->push(envelope, body, apart)) give_back(envelope, queue_is_full(*link->second));
  return false;
}

Result<void> Forwarder::may_use(const Link& link, std::uint64_t debtor) {
  return may_dial(link.host(), debtor == Debts::kNobody || Listener::is_local(debtor));
}

bool Forwarder::deliver_local(const wire::Envelope& envelope, Bytes body, zmq::message_t* apart,
                              std::uint64_t debtor) {
  const bool is_cast = (envelope.flags() & kFlagCast) != 0;
  if (envelope.destination_proc() == 0) {
    if ((envelope.flags() & kFlagRelay) != 0) {
      on_relay(envelope, body, apart);
      return false;
    }
    if (is_cast) return fan_out(envelope, body, apart, debtor);
    if (envelope.kind() != wire::Kind::control) {
      give_back(envelope, Error(ErrorCode::no_such_port, "a broker takes control messages only"));
      return false;
    }
    ++counters_.handled;
    events_.on_own(envelope, body);
    return false;
  }
  if (Peer* peer = routes_.find(envelope.destination_proc())) {
    if (is_cast && (peer->identity.capabilities & kCapabilityCast) == 0) [[unlikely]] {
      give_back(envelope,
                Error(ErrorCode::version_mismatch,
                      peer->identity.text + " is of a release of meshbus that knows no casts"));
      return false;
    }
    bool is_queued = peer->outbox.push(envelope, body, apart);
    if (!is_queued && !peer->is_blocked) {
      // One turn may bring more than a queue holds for one who reads well.
      flush(*peer);
      is_queued = !peer->is_ended && peer->outbox.push(envelope, body, apart);
    }
    if (!is_queued) {
      give_back(
          envelope,
          Error(ErrorCode::queue_full,
                "the queue to " + peer->identity.text +
                    " is full (queue.bytes, queue.count): it reads too slowly, or not at all"));
      if (debtor == Debts::kNobody || envelope.lane() != wire::Lane::data) return false;
      returned_.add(debtor, sizeof envelope + body.size());
      arm_patience();
      return true;
    }
    touch(*peer);
    if (envelope.lane() != wire::Lane::data) return false;
    peer->debts.add(debtor, sizeof envelope + body.size());
    return debtor != Debts::kNobody;
  }
  // A host's agent comes back: what is for it waits for the next one.
  const std::string* gone = routes_.find_gone(envelope.destination_proc());
  if (gone != nullptr && envelope.destination_proc() != host_service(options_.host).key()) {
    give_back(envelope, Error(ErrorCode::no_such_proc, *gone + " has left"));
    return false;
  }
  // Procs that are not there yet the host is starting. Controllers it does not start: whoever wants
  // to wait for one asks again.
  if (envelope.destination_proc() == controller_key_) {
    give_back(envelope, Error(ErrorCode::no_such_proc,
                              "no controller has registered at " + options_.host.to_string()));
    return false;
  }
  if (envelope.source_proc() != 0 && waiting_.add(envelope, body, apart, reactor_.now())) {
    arm_expiry();
    return false;
  }
  const bool is_off = waiting_.wait().count() == 0;
  give_back(envelope,
            Error(is_off ? ErrorCode::no_such_proc : ErrorCode::queue_full,
                  undeliverable_detail(envelope.destination_proc()) +
                      "; it was not kept waiting, because " +
                      (is_off ? "delivery.starting is 0" : "too many messages wait already")));
  return false;
}

std::string Forwarder::undeliverable_detail(std::uint64_t proc) const {
  return "no proc of key " + hex(proc) + " has registered at " + options_.host.to_string();
}

wire::Envelope Forwarder::own_envelope() noexcept {
  wire::Envelope envelope;
  envelope.mutate_source_host(own_key_);
  envelope.mutate_source_incarnation(options_.incarnation);
  envelope.mutate_sequence(next_sequence_++);
  envelope.mutate_kind(wire::Kind::control);
  envelope.mutate_lane(wire::Lane::control);
  envelope.mutate_role(wire::Role::broker);
  envelope.mutate_flags(kFlagNoReturn);
  return envelope;
}

void Forwarder::originate(std::uint64_t proc, std::uint64_t host, const std::string& body) {
  ++counters_.originated;
  wire::Envelope envelope = own_envelope();
  envelope.mutate_destination_proc(proc);
  envelope.mutate_destination_host(host == 0 ? own_key_ : host);
  if (!is_sendable(body)) {
    drop(envelope, Drop::not_needed);
    return;
  }
  deliver(envelope, body, nullptr, Debts::kNobody);
}

void Forwarder::originate_to(Peer& peer, const std::string& body) {
  ++counters_.originated;
  const wire::Envelope envelope = own_envelope();
  if (is_sendable(body) && peer.outbox.push(envelope, body)) {
    touch(peer);
  } else {
    drop(envelope, Drop::not_needed);
  }
}

void Forwarder::drop(const wire::Envelope& envelope, Drop reason) {
  counters_.drop(reason);
  if (monitor_ != nullptr) monitor_->dropped(envelope, reason);
}

void Forwarder::give_back(const wire::Envelope& envelope, const Error& error) {
  if (envelope.source_proc() == 0) {
    drop(envelope, Drop::not_needed);
    return;
  }
  if ((envelope.flags() & kFlagNoReturn) != 0) {
    drop(envelope, Drop::no_return);
    return;
  }
  ++(error.code() == ErrorCode::fate_unknown ? counters_.fate_unknown : counters_.returned);
  if (monitor_ != nullptr) monitor_->returned(envelope, error);
  wire::UndeliverableT undeliverable;
  undeliverable.envelope = std::make_unique<wire::Envelope>(envelope);
  undeliverable.code = to_wire(error.code());
  undeliverable.detail = cut_text(error.detail());
  const std::string body = encode_control({}, std::move(undeliverable));
  if (envelope.source_host() == own_key_) {
    const Peer* source = routes_.find(envelope.source_proc());
    if (source == nullptr || source->identity.incarnation != envelope.source_incarnation()) {
      // Another life of the sender must not take it for an answer to what it sent itself.
      ++counters_.originated;
      drop(envelope, Drop::not_needed);
      return;
    }
  }
  originate(envelope.source_proc(), envelope.source_host(), body);
}

void Forwarder::touch(Peer& peer) {
  if (peer.is_touched || peer.is_blocked) return;
  peer.is_touched = true;
  touched_.push_back(&peer);
}

void Forwarder::unblock(Peer& peer) {
  peer.is_blocked = false;
  // What did not leave may be credit alone.
  touch(peer);
}

void Forwarder::unblock_all() {
  for (Peer* peer : blocked_) unblock(*peer);
  blocked_.clear();
}

void Forwarder::release_waiting(const Peer& peer) {
  waiting_.release(
      peer.identity.key, [this](const wire::Envelope& envelope, Bytes body, zmq::message_t& part) {
        deliver_local(envelope, body, body.size() > kInlineLimit ? &part : nullptr, Debts::kNobody);
      });
}

void Forwarder::arm_expiry() {
  if (expiry_timer_ != 0) return;
  const auto due = waiting_.next_due();
  if (!due) return;
  expiry_timer_ = reactor_.at(*due, [this] {
    expiry_timer_ = 0;
    waiting_.expire(reactor_.now(), [this](const wire::Envelope& envelope, Bytes, zmq::message_t&) {
      give_back(envelope,
                Error(ErrorCode::no_such_proc,
                      undeliverable_detail(envelope.destination_proc()) + " within " +
                          std::to_string(waiting_.wait().count()) + " ms (delivery.starting)"));
    });
    arm_expiry();
  });
}

void Forwarder::return_outbox(Peer& peer, const Error& error) {
  peer.outbox.drain([&](const wire::Envelope& envelope, Bytes) { give_back(envelope, error); });
  release(peer, SIZE_MAX);
}

void Forwarder::release(Peer& peer, std::size_t bytes) {
  peer.debts.take(bytes, [this](std::uint64_t debtor, std::size_t released) {
    tell_released(debtor, released);
  });
}

void Forwarder::arm_patience() {
  if (patience_timer_ == 0) patience_timer_ = reactor_.after(kPatience, [this] { on_patience(); });
}

void Forwarder::on_patience() {
  patience_timer_ = 0;
  const auto tell = [this](std::uint64_t debtor, std::size_t bytes) {
    tell_released(debtor, bytes);
  };
  returned_.take(SIZE_MAX, tell);
  const auto now = reactor_.now();
  std::erase_if(slow_, [](Peer* peer) {
    peer->is_slow = peer->waits_since != Reactor::Time{};
    return !peer->is_slow;
  });
  for (Peer* peer : slow_) {
    if (now - peer->waits_since >= kPatience) peer->debts.forgive(tell);
  }
  if (!slow_.empty()) arm_patience();
}

void Forwarder::move_outbox(Peer& from, Peer& to) {
  from.outbox.drain([&](const wire::Envelope& envelope, Bytes body) {
    std::uint64_t debtor = Debts::kNobody;
    const std::size_t size = sizeof envelope + body.size();
    if (envelope.lane() == wire::Lane::data)
      from.debts.take(size, [&](std::uint64_t whose, std::size_t) { debtor = whose; });
    // What the broker itself had to say was about the old session.
    if (envelope.destination_proc() == 0) {
      drop(envelope, Drop::not_needed);
    } else if (to.outbox.push(envelope, body)) {
      if (envelope.lane() == wire::Lane::data)
        to.debts.add(std::exchange(debtor, Debts::kNobody), size);
    } else {
      give_back(envelope, Error(ErrorCode::queue_full, "the queue to " + to.identity.text +
                                                           " is full (queue.bytes, queue.count)"));
    }
    if (debtor != Debts::kNobody) tell_released(debtor, size);
  });
  touch(to);
}

void Forwarder::forget(Peer& peer) {
  std::erase(touched_, &peer);
  std::erase(blocked_, &peer);
  std::erase(slow_, &peer);
}

void Forwarder::flush() {
  // A peer that turns out to be lost has its outbox returned, which touches others.
  while (!touched_.empty() || !touched_links_.empty()) {
    std::vector<Peer*> now;
    now.swap(touched_);
    for (Peer* peer : now) {
      peer->is_touched = false;
      flush(*peer);
    }
    std::vector<Link*> links;
    links.swap(touched_links_);
    for (Link* link : links) link->flush();
  }
  if (!blocked_.empty()) arm_retry();
}

void Forwarder::flush(Peer& peer) {
  if (peer.is_ended || peer.is_blocked) return;
  while (Frame* frame = peer.outbox.front()) {
    const bool is_data = frame->lane == wire::Lane::data;
    // Credit comes with a frame of the peer, which touches it.
    const bool may_leave = is_data ? is_within_window(peer.sent - peer.credit, frame->bytes)
                                   : peer.control_unheard < kControlWindow;
    if (!may_leave || !hand_over(peer, *frame)) {
      if (!peer.is_ended && peer.waits_since == Reactor::Time{}) {
        peer.waits_since = reactor_.now();
        if (!std::exchange(peer.is_slow, true)) slow_.push_back(&peer);
        arm_patience();
      }
      break;
    }
    (is_data ? peer.sent : peer.control_unheard) += frame->bytes;
    counters_.delivered += frame->count;
    const std::size_t bytes = frame->bytes;
    peer.outbox.pop();
    // A heartbeat that leaves past data that waits is no progress.
    if (is_data || peer.outbox.empty(wire::Lane::data)) peer.waits_since = {};
    if (is_data) release(peer, bytes);
  }
  if (peer.is_ended || peer.is_blocked || peer.taken - peer.announced < kCreditStep ||
      peer.identity.is_link())
    return;
  Frame credit = FrameWriter(wire::Lane::control).finish();
  hand_over(peer, credit);
}

bool Forwarder::hand_over(Peer& peer, Frame& frame) {
  frame.set_credit(peer.taken);
  if (peer.identity.is_link()) {
    const Link* link = find_link(peer.identity.key);
    frame.set_link(0, link == nullptr ? 0 : link->taken());
  }
  switch (listener_->send(peer.connection, frame)) {
    case Listener::Sent::yes:
      peer.announced = peer.taken;
      peer.last_sent = reactor_.now();
      return true;
    case Listener::Sent::full:
      if (!std::exchange(peer.is_blocked, true) && !Listener::is_local(peer.connection))
        blocked_.push_back(&peer);
      return false;
    case Listener::Sent::gone: events_.on_lost(peer); return false;
  }
  return false;
}

Listener::Sent Forwarder::send(Peer& peer, Frame& frame) {
  // Welcome comes first.
  flush(peer);
  if (peer.is_ended) return Listener::Sent::gone;
  if (!peer.outbox.empty()) return Listener::Sent::full;
  frame.set_credit(peer.taken);
  const auto sent = listener_->send(peer.connection, frame);
  if (sent == Listener::Sent::yes) peer.last_sent = reactor_.now();
  if (sent == Listener::Sent::gone) events_.on_lost(peer);
  return sent;
}

void Forwarder::arm_retry() {
  if (retry_timer_ != 0) return;
  retry_timer_ = reactor_.after(kRetry, [this] {
    retry_timer_ = 0;
    unblock_all();
  });
}

}  // namespace meshbus
