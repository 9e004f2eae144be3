#include "broker/router/cast_receiver.h"

#include <string>
#include <utility>

#include "broker/router/relay_tables.h"
#include "wire/relay_generated.h"

namespace meshbus {
namespace {

constexpr std::chrono::milliseconds kAssemblyLook{250};
/// What waits for bodies of casts, and bodies that wait for their casts.
constexpr std::size_t kAssemblyBytes = 64 * 1024 * 1024;
constexpr std::size_t kAssemblyCount = 65536;

MessagePart part_of(Bytes body, MessagePart* detached) {
  return detached != nullptr ? std::move(*detached) : MessagePart(body.data(), body.size());
}

}  // namespace

CastReceiver::CastReceiver(Reactor& reactor, Router& router, CastFanout& fanout, CastRelay& relay,
                           Counters& counters, std::chrono::milliseconds delivery_limit)
    : reactor_(reactor),
      router_(router),
      fanout_(fanout),
      relay_(relay),
      counters_(counters),
      assembly_({.bytes = kAssemblyBytes, .count = kAssemblyCount, .wait = delivery_limit}) {}

CastReceiver::~CastReceiver() {
  reactor_.cancel(timer_);
}

bool CastReceiver::must_wait(const wire::Envelope& envelope) const {
  if (envelope.source_host() == router_.own().key() || envelope.lane() != wire::Lane::data)
    return false;
  return (envelope.flags() & kFlagDetachedCast) != 0 || assembly_.is_held(envelope);
}

bool CastReceiver::hold(const wire::Envelope& envelope, Bytes body, MessagePart* detached) {
  const bool is_cast = (envelope.flags() & kFlagDetachedCast) != 0;
  CastAssembly::Message message;
  message.envelope = envelope;
  if (is_cast) {
    auto table = decode_table<wire::DetachedCast>(body);
    const bool is_right = table && table->number != 0 && (envelope.flags() & kFlagCast) != 0 &&
                          router_.is_own(envelope);
    if (!is_right) {
      router_.give_back(envelope,
                        Error(ErrorCode::malformed_message,
                              "a cast whose body is said to be elsewhere, but not which it is"));
      return true;
    }
    message.number = table->number;
    message.digest.assign(table->digest.begin(), table->digest.end());
  } else {
    message.body = part_of(body, detached);
  }
  if (!assembly_.add(std::move(message), reactor_.now())) {
    router_.give_back(envelope, Error(ErrorCode::queue_full,
                                      "too much waits at " + router_.own().address().to_string() +
                                          " for bodies of casts"));
    return true;
  }
  if (is_cast) deliver(assembly_.take_ready());
  arm_timer();
  return true;
}

bool CastReceiver::receive(const wire::Envelope& envelope, Bytes body, MessagePart* detached,
                           Charge& charge) {
  if (!router_.is_own(envelope)) return false;
  if ((envelope.flags() & kFlagRelay) != 0) {
    on_relay(envelope, body, detached);
  } else if ((envelope.flags() & kFlagCast) != 0) {
    fanout_.spread(envelope, body, detached, charge);
  } else {
    return false;
  }
  return true;
}

void CastReceiver::on_relay(const wire::Envelope& envelope, Bytes body, MessagePart* detached) {
  if (envelope.source_proc() != 0 || envelope.source_host() == router_.own().key() ||
      envelope.kind() != wire::Kind::message)
    return router_.give_back(envelope,
                             Error(ErrorCode::malformed_message, "only brokers pass casts on"));
  ++counters_.handled;
  const std::uint64_t number = envelope.sequence();
  const std::uint64_t from = envelope.source_host();
  switch (static_cast<wire::RelayPort>(envelope.port())) {
    case wire::RelayPort::here: relay_.done(number, from); return;
    case wire::RelayPort::pass_on: relay_.expect(number, from, body); return;
    case wire::RelayPort::body: break;
    default: return;
  }
  MessagePart bytes = part_of(body, detached);
  relay_.pass_on(number, from, bytes);
  assembly_.add_body(number, std::move(bytes), reactor_.now());
  deliver(assembly_.take_ready());
  arm_timer();
}

void CastReceiver::deliver(std::vector<CastAssembly::Message> messages) {
  for (auto& message : messages) {
    wire::Envelope& envelope = message.envelope;
    if (message.is_late) {
      router_.give_back(envelope,
                        Error(ErrorCode::link_lost,
                              "the body of this cast, which was to come by other hosts, did "
                              "not reach " +
                                  router_.own().address().to_string() + " in time"));
      continue;
    }
    if (message.number != 0) {
      envelope.mutate_flags(envelope.flags() & ~kFlagDetachedCast);
      relay_.confirm(message.number, envelope.source_host());
    }
    const Bytes body = bytes_of(message.body.data(), message.body.size());
    MessagePart* detached = body.size() > kInlineLimit ? &message.body : nullptr;
    Charge none;
    if (!receive(envelope, body, detached, none)) router_.deliver(envelope, body, detached, none);
  }
}

void CastReceiver::arm_timer() {
  if (timer_ != 0 || assembly_.empty()) return;
  timer_ = reactor_.after(kAssemblyLook, [this] {
    timer_ = 0;
    deliver(assembly_.expire(reactor_.now()));
    arm_timer();
  });
}

}  // namespace meshbus
