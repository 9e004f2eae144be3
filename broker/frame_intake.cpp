#include "broker/frame_intake.h"

#include <string>
#include <utility>

#include "broker/access/link_role.h"
#include "common/bus/cast.h"
#include "wire/frame_generated.h"

namespace meshbus {
namespace {

/// Requests that may be made at once after a pause, in seconds' worth.
constexpr std::uint64_t kRequestsAtOnce = 10;

}  // namespace

FrameIntake::FrameIntake(Reactor& reactor, Router& router, PeerQueues& queues, LinkTable& links,
                         CastReceiver& casts, BrokerRequests& requests, Counters& counters,
                         AuditTrail* audit, std::uint64_t requests_rate)
    : reactor_(reactor),
      router_(router),
      queues_(queues),
      links_(links),
      casts_(casts),
      requests_(requests),
      counters_(counters),
      audit_(audit),
      requests_rate_(requests_rate),
      request_rates_(requests_rate, requests_rate * kRequestsAtOnce) {}

void FrameIntake::on_frame(Peer& peer, std::vector<MessagePart>& parts) {
  auto reader = FrameReader::open(parts);
  if (reader) return read(peer, *reader);
  ++counters_.malformed_frames;
  limited_log_.warn(peer.identity.text +
                    " sent a frame that is dropped: " + reader.error().detail());
}

void FrameIntake::read(Peer& peer, FrameReader& reader) {
  queues_.on_heard(peer, reader.header().credit());
  const bool is_link = peer.identity.is_link();
  if (reader.is_link() && is_link && !take_link_frame(peer, reader)) return;
  std::size_t released = 0;
  FrameReader::Message message;
  while (reader.next(message)) {
    const bool is_data = message.envelope.lane() == wire::Lane::data;
    const std::size_t bytes = sizeof message.envelope + message.body.size();
    const std::size_t size = is_data ? bytes : 0;
    counters_.received_bytes += bytes;
    if (is_link) {
      const Identity& identity = peer.identity;
      on_link_message({&peer, identity.key, identity.incarnation, identity.ceiling}, message);
      released += size;
    } else {
      Charge charge{peer.connection, size};
      on_peer_message(peer, message, charge);
      released += charge.bytes;
    }
  }
  queues_.give_credit(peer, released);
  if (!reader.is_malformed()) return;
  ++counters_.malformed_frames;
  limited_log_.warn(peer.identity.text + " sent a malformed frame; the rest of it is dropped");
}

bool FrameIntake::take_link_frame(Peer& peer, FrameReader& reader) {
  Link* link = links_.find(peer.identity.key);
  if (link == nullptr || link->on_frame(reader, peer.identity.incarnation)) return link != nullptr;
  if (link->incarnation() == peer.identity.incarnation) return false;
  FrameReader::Message message;
  while (reader.next(message)) {
    ++counters_.received;
    router_.drop(message.envelope, Drop::old_incarnation);
  }
  return false;
}

void FrameIntake::on_peer_message(Peer& peer, FrameReader::Message& message, Charge& charge) {
  const Identity& identity = peer.identity;
  wire::Envelope& envelope = message.envelope;
  envelope.mutate_source_proc(identity.key);
  envelope.mutate_source_host(router_.own().key());
  envelope.mutate_source_incarnation(identity.incarnation);
  envelope.mutate_role(identity.role);
  envelope.mutate_hop(0);
  envelope.mutate_flags(envelope.flags() & ~(kFlagDetachedCast | kFlagRelay));
  if (identity.role < Role::operate && identity.kind == wire::PeerKind::launcher) [[unlikely]] {
    if (const auto error = objection(peer, envelope)) return give_back(peer, envelope, *error);
  }
  if (envelope.destination_host() == 0) envelope.mutate_destination_host(router_.own().key());
  if (audit_ != nullptr && envelope.kind() == wire::Kind::control) audit_peer(peer, message);
  pass_on(&peer, message, charge);
}

void FrameIntake::audit_peer(const Peer& peer, const FrameReader::Message& message) {
  const wire::Envelope& envelope = message.envelope;
  const Identity& identity = peer.identity;
  if (audit_->is_waiting(envelope.destination_proc())) audit_->on_answer(envelope, message.body);
  if (identity.kind != wire::PeerKind::launcher && identity.kind != wire::PeerKind::controller)
    return;
  const Link* other = router_.is_own(envelope) ? nullptr : links_.find(envelope.destination_host());
  audit_->on_control(AuditedPrincipal::of(identity),
                     other == nullptr ? "" : other->host().to_string(), envelope, message.body);
}

void FrameIntake::audit_link(std::uint64_t host, const FrameReader::Message& message) {
  const wire::Envelope& envelope = message.envelope;
  if (audit_->is_waiting(envelope.destination_proc())) audit_->on_answer(envelope, message.body);
  const Link* link = links_.find(host);
  if (link == nullptr) return;
  audit_->on_control(AuditedPrincipal::over_link(link->host(), envelope.role()), "", envelope,
                     message.body);
}

void FrameIntake::pass_on(Peer* via, FrameReader::Message& message, Charge& charge) {
  wire::Envelope& envelope = message.envelope;
  if (!router_.admit(envelope)) return;
  if (casts_.take(envelope, message.body, message.detached, charge)) return;
  if (router_.is_own(envelope) && envelope.kind() == wire::Kind::control) {
    requests_.handle(via, envelope, message.body);
  } else {
    router_.deliver(envelope, message.body, message.detached, charge);
  }
}

std::optional<Error> FrameIntake::objection(const Peer& peer, const wire::Envelope& envelope) {
  if (envelope.kind() != wire::Kind::control) {
    if (peer.identity.role >= Role::proc) return std::nullopt;
    return Error(ErrorCode::unauthorised,
                 "observers look at states and logs; messages and calls to procs take the key of "
                 "a client");
  }
  if (request_rates_.take(peer.identity.principal, reactor_.now())) return std::nullopt;
  return Error(ErrorCode::queue_full,
               "observers and clients may ask hosts " + std::to_string(requests_rate_) +
                   " times a second (requests.rate), and ten times as often at once after a "
                   "pause: ask again later");
}

void FrameIntake::give_back(Peer& peer, const wire::Envelope& envelope, const Error& error) {
  ++counters_.received;
  ++counters_.refused_messages;
  if (!std::exchange(peer.is_refusal_logged, true)) {
    log::warn(peer.identity.text + " (" + peer.identity.user + ") is refused: " + error.detail());
    if (audit_ != nullptr)
      audit_->note(AuditedPrincipal::of(peer.identity), "message", {},
                   "refused: " + error.detail());
  }
  router_.give_back(envelope, error);
}

void FrameIntake::on_link_message(Link& link, FrameReader::Message message) {
  counters_.received_bytes += sizeof message.envelope + message.body.size();
  on_link_message({nullptr, link.key(), link.incarnation(), links_.ceiling(link.key())}, message);
}

void FrameIntake::on_link_message(const OtherBroker& other, FrameReader::Message& message) {
  wire::Envelope& envelope = message.envelope;
  if (envelope.source_host() == 0 && envelope.source_proc() == 0) {
    // The other broker speaks of the link itself; it leaves its own address out.
    envelope.mutate_source_host(other.host);
    envelope.mutate_source_incarnation(other.incarnation);
  }
  const bool is_of_ours =
      envelope.source_proc() != 0 && router_.routes().has(envelope.source_proc());
  if (envelope.source_host() != other.host || is_of_ours) {
    ++counters_.received;
    router_.drop(envelope, Drop::false_source);
    limited_log_.warn("a link sent a message of another host than its own; dropped");
    return;
  }
  bool is_agent = false;
  if (envelope.role() > Role::operate && envelope.source_proc() != 0) {
    const Link* link = links_.find(other.host);
    is_agent = link != nullptr && envelope.source_proc() == host_service(link->host()).key();
  }
  envelope.mutate_role(role_over_link(envelope, message.body, is_agent, other.ceiling));
  if (other.ceiling < Role::proc &&
      (envelope.kind() == wire::Kind::message || envelope.kind() == wire::Kind::call)) {
    ++counters_.received;
    ++counters_.refused_messages;
    return router_.give_back(envelope, Error(ErrorCode::unauthorised,
                                             "the key of that host has the ceiling observer: "
                                             "its peers look at states and logs here"));
  }
  if (audit_ != nullptr && envelope.kind() == wire::Kind::control) audit_link(other.host, message);
  Charge none;
  pass_on(other.via, message, none);
}

}  // namespace meshbus
