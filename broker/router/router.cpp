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
      options_(std::move(options)),
      own_key_(options_.host.key()),
      agent_key_(host_service(options_.host).key()),
      controller_key_(ProcId(options_.host, ProcName(Name::controller())).key()),
      waiting_(options_.waiting) {}

Router::~Router() {
  reactor_.cancel(expiry_timer_);
}

bool Router::admit(wire::Envelope& envelope) {
  ++counters_.received;
  if (envelope.hop() >= options_.hop_limit) {
    give_back(envelope,
              Error(ErrorCode::expired, "the message passed " + std::to_string(envelope.hop()) +
                                            " brokers, the limit (hop.limit)"));
    return false;
  }
  envelope.mutate_hop(static_cast<std::uint8_t>(envelope.hop() + 1));
  return true;
}

void Router::deliver(const wire::Envelope& envelope, Bytes body, zmq::message_t* detached,
                     Charge& charge) {
  tap(envelope, body);
  if (is_here(envelope.destination_host())) {
    deliver_here(envelope, body, detached, charge);
  } else {
    deliver_by_link(envelope, body, detached, charge);
  }
}

void Router::deliver_by_link(const wire::Envelope& envelope, Bytes body, zmq::message_t* detached,
                             const Charge& charge) {
  const std::uint64_t host = envelope.destination_host();
  if (envelope.source_host() != own_key_)
    return give_back(envelope, Error(ErrorCode::no_such_host,
                                     "this is " + options_.host.to_string() +
                                         ", which passes nothing on between other hosts (key " +
                                         hex(host) + ")"));
  Link* link = links_.find(host);
  if (link == nullptr) {
    const Error* refusal = links_.find_refusal(host);
    return give_back(envelope, refusal != nullptr
                                   ? *refusal
                                   : Error(ErrorCode::no_such_host,
                                           "the broker of " + options_.host.to_string() +
                                               " knows no host of key " + hex(host) +
                                               ": nobody has introduced it"));
  }
  if (const auto may = may_use(*link, charge); !may) return give_back(envelope, may.error());
  if (!link->push(envelope, body, detached)) give_back(envelope, queue_is_full(*link));
}

Result<void> Router::may_use(const Link& link, const Charge& charge) {
  return may_dial(link.host(), !charge.sender || Listener::is_local(*charge.sender));
}

Error Router::queue_is_full(const Link& link) {
  return {ErrorCode::queue_full,
          "the queue to " + link.host().to_string() + " is full (queue.bytes, queue.count)"};
}

void Router::deliver_here(const wire::Envelope& envelope, Bytes body, zmq::message_t* detached,
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

void Router::wait_or_give_back(const wire::Envelope& envelope, Bytes body,
                               zmq::message_t* detached) {
  const std::uint64_t proc = envelope.destination_proc();
  // A host's agent comes back: its messages wait for the next one.
  const std::string* gone = routes_.find_gone(proc);
  if (gone != nullptr && proc != agent_key_)
    return give_back(envelope, Error(ErrorCode::no_such_proc, *gone + " has left"));
  // The host starts procs, so one that has not registered may be starting. It starts no
  // controllers: a sender that wants to wait for one asks again.
  if (proc == controller_key_)
    return give_back(envelope, Error(ErrorCode::no_such_proc, "no controller has registered at " +
                                                                  options_.host.to_string()));
  if (envelope.source_proc() != 0 && waiting_.add(envelope, body, detached, reactor_.now())) {
    arm_expiry();
    return;
  }
  const bool is_off = waiting_.wait().count() == 0;
  give_back(envelope,
            Error(is_off ? ErrorCode::no_such_proc : ErrorCode::queue_full,
                  undeliverable_detail(proc) + "; it was not kept waiting, because " +
                      (is_off ? "delivery.starting is 0" : "too many messages wait already")));
}

std::string Router::undeliverable_detail(std::uint64_t proc) const {
  return "no proc of key " + hex(proc) + " has registered at " + options_.host.to_string();
}

wire::Envelope Router::session_envelope() const noexcept {
  wire::Envelope envelope;
  envelope.mutate_source_host(own_key_);
  envelope.mutate_source_incarnation(options_.incarnation);
  envelope.mutate_kind(wire::Kind::control);
  envelope.mutate_lane(wire::Lane::control);
  envelope.mutate_role(wire::Role::broker);
  envelope.mutate_flags(kFlagNoReturn);
  return envelope;
}

wire::Envelope Router::own_envelope() noexcept {
  wire::Envelope envelope = session_envelope();
  envelope.mutate_sequence(next_sequence_++);
  return envelope;
}

void Router::originate(std::uint64_t proc, std::uint64_t host, const std::string& body) {
  ++counters_.originated;
  wire::Envelope envelope = own_envelope();
  envelope.mutate_destination_proc(proc);
  envelope.mutate_destination_host(host == 0 ? own_key_ : host);
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
  if (envelope.source_host() == own_key_) {
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
  waiting_.release(proc, [this](const wire::Envelope& envelope, Bytes body, zmq::message_t& part) {
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
    waiting_.expire(reactor_.now(), [this](const wire::Envelope& envelope, Bytes, zmq::message_t&) {
      give_back(envelope,
                Error(ErrorCode::no_such_proc,
                      undeliverable_detail(envelope.destination_proc()) + " within " +
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
