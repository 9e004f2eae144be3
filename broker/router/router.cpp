#include "broker/router/router.h"

#include <memory>
#include <utility>

#include "broker/access/dial_policy.h"
#include "common/base/log.h"
#include "common/bus/cast.h"
#include "common/wire/control.h"
#include "wire/bus_generated.h"

namespace meshbus {
namespace {

std::string hex(std::uint64_t key) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 60; shift >= 0; shift -= 4) text += digits[(key >> shift) & 0xf];
  return text;
}

std::string undeliverable_detail(std::uint64_t proc, const OwnHost& own) {
  return "no proc of key " + hex(proc) + " has registered at " + own.address().to_string();
}

/// Messages of the broker itself are short: their texts are cut. A longer one would be a malformed
/// frame to its receiver.
bool is_sendable(const std::string& body) {
  if (body.size() <= kBodyLimit) return true;
  log::error("a message of the broker itself has " + std::to_string(body.size()) +
             " bytes, above the limit of " + std::to_string(kBodyLimit) + ", and is dropped");
  return false;
}

}  // namespace

Router::Router(Reactor& reactor, PeerQueues& queues, LinkTable& links, Counters& counters,
               Monitor* monitor, Tap* tap, Options options)
    : reactor_(reactor),
      queues_(queues),
      links_(links),
      counters_(counters),
      monitor_(monitor),
      tap_(tap),
      own_(std::move(options.host), options.incarnation),
      hop_limit_(options.hop_limit),
      agent_key_(host_service(own_.address()).key()),
      controller_key_(ProcId(own_.address(), ProcName(Name::controller())).key()),
      waiting_(options.waiting) {}

Router::~Router() {
  reactor_.cancel(expiry_timer_);
}

bool Router::admit(wire::Envelope& envelope) {
  ++counters_.received;
  if (envelope.hop() >= hop_limit_) {
    give_back(envelope,
              Error(ErrorCode::expired, "the message passed " + std::to_string(envelope.hop()) +
                                            " brokers, the limit (hop.limit)"));
    return false;
  }
  envelope.mutate_hop(static_cast<std::uint8_t>(envelope.hop() + 1));
  return true;
}

void Router::deliver(const wire::Envelope& envelope, Bytes body, MessagePart* detached,
                     Charge& charge) {
  tap(envelope, body);
  if (own_.is_here(envelope.destination_host())) {
    deliver_here(envelope, body, detached, charge);
  } else {
    deliver_by_link(envelope, body, detached, charge);
  }
}

void Router::deliver_by_link(const wire::Envelope& envelope, Bytes body, MessagePart* detached,
                             const Charge& charge) {
  const std::uint64_t host = envelope.destination_host();
  if (envelope.source_host() != own_.key())
    return give_back(envelope, Error(ErrorCode::no_such_host,
                                     "this is " + own_.address().to_string() +
                                         ", which passes nothing on between other hosts (key " +
                                         hex(host) + ")"));
  Link* link = links_.find(host);
  if (link == nullptr) {
    const Error* refusal = links_.find_refusal(host);
    return give_back(envelope, refusal != nullptr
                                   ? *refusal
                                   : Error(ErrorCode::no_such_host,
                                           "the broker of " + own_.address().to_string() +
                                               " knows no host of key " + hex(host) +
                                               ": nobody has introduced it"));
  }
  if (const auto may = may_use(*link, charge); !may) return give_back(envelope, may.error());
  if (!link->push(envelope, body, detached)) give_back(envelope, queue_is_full(*link));
}

Result<void> Router::may_use(const Link& link, const Charge& charge) {
  return may_dial(link.host(), !charge.has_sender() || Listener::is_local(charge.sender));
}

Error Router::queue_is_full(const Link& link) {
  return {ErrorCode::queue_full,
          "the queue to " + link.host().to_string() + " is full (queue.bytes, queue.count)"};
}

void Router::deliver_here(const wire::Envelope& envelope, Bytes body, MessagePart* detached,
                          Charge& charge) {
  if (envelope.destination_proc() == 0) {
    if (envelope.kind() == wire::Kind::control) {
      // The broker does not answer itself.
      ++counters_.handled;
    } else {
      give_back(envelope, Error(ErrorCode::no_such_port, "a broker takes control messages only"));
    }
    return;
  }
  Peer* peer = routes_.find(envelope.destination_proc());
  if (peer == nullptr) return wait_or_give_back(envelope, body, detached);
  const bool is_cast = (envelope.flags() & kFlagCast) != 0;
  if (is_cast && (peer->identity.capabilities & kCapabilityCast) == 0) [[unlikely]]
    return give_back(
        envelope, Error(ErrorCode::version_mismatch,
                        peer->identity.text + " is of a release of meshbus that knows no casts"));
  if (!queues_.push(*peer, envelope, body, detached, charge))
    give_back(envelope,
              Error(ErrorCode::queue_full,
                    "the queue to " + peer->identity.text +
                        " is full (queue.bytes, queue.count): it reads too slowly, or not at all"));
}

void Router::wait_or_give_back(const wire::Envelope& envelope, Bytes body, MessagePart* detached) {
  const std::uint64_t proc = envelope.destination_proc();
  // A host's agent comes back: its messages wait for the next one.
  const std::string* gone = routes_.find_gone(proc);
  if (gone != nullptr && proc != agent_key_)
    return give_back(envelope, Error(ErrorCode::no_such_proc, *gone + " has left"));
  // The host starts procs, so one that has not registered may be starting. It starts no
  // controllers: a sender that wants to wait for one asks again.
  if (proc == controller_key_)
    return give_back(envelope, Error(ErrorCode::no_such_proc, "no controller has registered at " +
                                                                  own_.address().to_string()));
  if (envelope.source_proc() != 0 && waiting_.add(envelope, body, detached, reactor_.now())) {
    arm_expiry();
    return;
  }
  const bool is_off = waiting_.wait().count() == 0;
  give_back(envelope,
            Error(is_off ? ErrorCode::no_such_proc : ErrorCode::queue_full,
                  undeliverable_detail(proc, own_) + "; it was not kept waiting, because " +
                      (is_off ? "delivery.starting is 0" : "too many messages wait already")));
}

wire::Envelope Router::own_envelope() noexcept {
  wire::Envelope envelope = own_.session_envelope();
  envelope.mutate_sequence(next_sequence_++);
  return envelope;
}

void Router::originate(std::uint64_t proc, std::uint64_t host, const std::string& body) {
  ++counters_.originated;
  wire::Envelope envelope = own_envelope();
  envelope.mutate_destination_proc(proc);
  envelope.mutate_destination_host(host == 0 ? own_.key() : host);
  Charge none;
  if (is_sendable(body)) {
    deliver(envelope, body, nullptr, none);
  } else {
    drop(envelope, Drop::not_needed);
  }
}

void Router::originate_to(Peer& peer, const std::string& body) {
  ++counters_.originated;
  const wire::Envelope envelope = own_envelope();
  Charge none;
  if (!is_sendable(body) || !queues_.push(peer, envelope, body, nullptr, none))
    drop(envelope, Drop::not_needed);
}

void Router::drop(const wire::Envelope& envelope, Drop reason) {
  counters_.drop(reason);
  if (monitor_ != nullptr) monitor_->dropped(envelope, reason);
}

void Router::give_back(const wire::Envelope& envelope, const Error& error) {
  if (envelope.source_proc() == 0) return drop(envelope, Drop::not_needed);
  if ((envelope.flags() & kFlagNoReturn) != 0) return drop(envelope, Drop::no_return);
  ++(error.code() == ErrorCode::fate_unknown ? counters_.fate_unknown : counters_.returned);
  if (monitor_ != nullptr) monitor_->returned(envelope, error);
  wire::UndeliverableT undeliverable;
  undeliverable.envelope = std::make_unique<wire::Envelope>(envelope);
  undeliverable.code = to_wire(error.code());
  undeliverable.detail = cut_text(error.detail());
  const std::string body = encode_control({}, std::move(undeliverable));
  if (envelope.source_host() == own_.key()) {
    const Peer* source = routes_.find(envelope.source_proc());
    if (source == nullptr || source->identity.incarnation != envelope.source_incarnation()) {
      // Another incarnation of the sender must not take it for an answer to a message of its own.
      ++counters_.originated;
      return drop(envelope, Drop::not_needed);
    }
  }
  originate(envelope.source_proc(), envelope.source_host(), body);
}

void Router::release_waiting(std::uint64_t proc) {
  waiting_.release(proc, [this](const wire::Envelope& envelope, Bytes body, MessagePart& part) {
    Charge none;
    deliver_here(envelope, body, body.size() > kInlineLimit ? &part : nullptr, none);
  });
}

void Router::arm_expiry() {
  if (expiry_timer_ != 0) return;
  const auto due = waiting_.next_due();
  if (!due) return;
  expiry_timer_ = reactor_.at(*due, [this] {
    expiry_timer_ = 0;
    waiting_.expire(reactor_.now(), [this](const wire::Envelope& envelope, Bytes, MessagePart&) {
      give_back(envelope,
                Error(ErrorCode::no_such_proc,
                      undeliverable_detail(envelope.destination_proc(), own_) + " within " +
                          std::to_string(waiting_.wait().count()) + " ms (delivery.starting)"));
    });
    arm_expiry();
  });
}

void Router::return_all(Peer& peer, const Error& error) {
  for (const wire::Envelope& envelope : queues_.take_all(peer)) give_back(envelope, error);
}

void Router::move_all(Peer& from, Peer& to) {
  for (const wire::Envelope& envelope : queues_.move_all(from, to)) {
    if (envelope.destination_proc() == 0) {
      drop(envelope, Drop::not_needed);
    } else {
      give_back(envelope, Error(ErrorCode::queue_full, "the queue to " + to.identity.text +
                                                           " is full (queue.bytes, queue.count)"));
    }
  }
}

void Router::return_given_up() {
  for (const auto& [envelope, error] : links_.take_returned()) give_back(envelope, error);
}

}  // namespace meshbus
