#include "broker/frame_intake.h"

#include <string>
#include <utility>

#include "common/bus/cast.h"
#include "wire/frame_generated.h"

namespace meshbus {
namespace {

/// Requests that may be made at once after a pause, in seconds' worth.
constexpr std::uint64_t kRequestsAtOnce = 10;

}  // namespace

FrameIntake::FrameIntake(Reactor& reactor, Router& router, PeerQueues& queues, LinkTable& links,
                         CastReceiver& casts, BrokerRequests& requests, Counters& counters,
                         std::uint64_t requests_rate)
    : reactor_(reactor),
      router_(router),
      queues_(queues),
      links_(links),
      casts_(casts),
      requests_(requests),
      counters_(counters),
      requests_rate_(requests_rate),
      request_rates_(requests_rate, requests_rate * kRequestsAtOnce) {}

void FrameIntake::on_frame(Peer& peer, std::vector<zmq::message_t>& parts) {
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
    const std::size_t size = is_data ? sizeof message.envelope + message.body.size() : 0;
    if (is_link) {
      on_link_message(&peer, peer.identity.key, peer.identity.incarnation, message);
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
  pass_on(&peer, message, charge);
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
  if (!std::exchange(peer.is_refusal_logged, true))
    log::warn(peer.identity.text + " (" + peer.identity.user + ") is refused: " + error.detail());
  router_.give_back(envelope, error);
}

void FrameIntake::on_link_message(Link& link, FrameReader::Message message) {
  on_link_message(nullptr, link.key(), link.incarnation(), message);
}

void FrameIntake::on_link_message(Peer* via, std::uint64_t host, std::uint64_t incarnation,
                                  FrameReader::Message& message) {
  wire::Envelope& envelope = message.envelope;
  if (envelope.source_host() == 0 && envelope.source_proc() == 0) {
    // The other broker speaks of the link itself; it leaves its own address out.
    envelope.mutate_source_host(host);
    envelope.mutate_source_incarnation(incarnation);
    envelope.mutate_role(Role::broker);
  }
  if (envelope.source_host() != host) {
    ++counters_.received;
    router_.drop(envelope, Drop::false_source);
    limited_log_.warn("a link sent a message of another host than its own; dropped");
    return;
  }
  // A broker vouches for its own peers: up to operators, and the one agent that its host has.
  if (envelope.source_proc() == 0) {
    envelope.mutate_role(Role::broker);
  } else if (envelope.role() > Role::operate) {
    const Link* link = links_.find(host);
    const bool is_agent =
        link != nullptr && envelope.source_proc() == host_service(link->host()).key();
    envelope.mutate_role(is_agent ? Role::host : Role::operate);
  }
  Charge none;
  pass_on(via, message, none);
}

}  // namespace meshbus
