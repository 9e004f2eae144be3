// What comes in: frames of strangers, peers and links.
#include <algorithm>

#include "broker/broker_impl.h"
#include "common/bus/cast.h"
#include "wire/frame_generated.h"

namespace meshbus {

void Broker::Impl::on_frame(ConnectionId from, std::vector<zmq::message_t>& parts) {
  const auto found = connections.find(from);
  if (found == connections.end()) {
    on_stranger(from, parts);
    return;
  }
  auto reader = FrameReader::open(parts);
  if (!reader) {
    ++forwarder_->counters().malformed_frames;
    limited_log_.warn(found->second->identity.text +
                      " sent a frame that is dropped: " + reader.error().detail());
    return;
  }
  on_peer_frame(*found->second, *reader);
}

void Broker::Impl::on_stranger(ConnectionId from, std::vector<zmq::message_t>& parts) {
  Counters& counters = forwarder_->counters();
  if (refused_.contains(from)) {
    ++counters.ignored_frames;
    return;
  }
  if (!Listener::is_local(from))
    listener->drain_monitor();  // it has come, before anything is said of it
  auto reader = FrameReader::open(parts);
  if (!reader && reader.error().code() != ErrorCode::version_mismatch) {
    ++counters.malformed_frames;
    strangers_.refused(listener->descriptor_of(from, parts.front()), reactor_.now());
    return;
  }
  const Listener::Origin origin = listener->origin_of(from, parts.front());
  Stranger stranger{from, origin.descriptor, credentials_of(origin)};
  if (!reader) {
    ++counters.malformed_frames;
    refuse_stranger(stranger, reader.error());
    return;
  }
  FrameReader::Message message;
  if (!reader->next(message) || message.envelope.kind() != wire::Kind::control) {
    ++counters.ignored_frames;
    strangers_.refused(stranger.descriptor, reactor_.now());
    return;
  }
  auto control = ControlMessage::decode(message.body);
  if (!control) {
    ++counters.malformed_frames;
    strangers_.refused(stranger.descriptor, reactor_.now());
    return;
  }
  message.envelope.mutate_role(Role::none);
  stranger_ = &stranger;
  const auto done = handlers_.dispatch(
      Request{message.envelope,
              {.id = control->head().id, .deadline_ms = control->head().deadline_ms}},
      **control);
  stranger_ = nullptr;
  if (!done) {
    ++counters.ignored_frames;
    strangers_.refused(stranger.descriptor, reactor_.now());
    limited_log_.info("a connection from " + stranger.credentials.address +
                      " that is not registered: " + done.error().detail());
    return;
  }
  if (stranger.registered != nullptr) on_peer_frame(*stranger.registered, *reader);
}

void Broker::Impl::on_peer_frame(Peer& peer, FrameReader& reader) {
  if (reader.header().credit() > peer.credit) {
    peer.credit = std::min(reader.header().credit(), peer.sent);
    // It takes something, though not enough for the next frame.
    if (peer.waits_since != Reactor::Time{}) peer.waits_since = reactor_.now();
    forwarder_->touch(peer);
  }
  if (peer.control_unheard > 0) {
    peer.control_unheard = 0;
    if (!peer.outbox.empty()) forwarder_->touch(peer);
  }
  if (reader.is_link() && peer.identity.is_link() && !take_link_frame(peer, reader)) return;
  speaker_ = &peer;
  FrameReader::Message message;
  while (reader.next(message)) {
    const std::size_t size = sizeof message.envelope + message.body.size();
    const bool is_data = message.envelope.lane() == wire::Lane::data;
    if (!on_peer_message(peer, message) && is_data) peer.taken += size;
  }
  speaker_ = nullptr;
  if (peer.taken - peer.announced >= kCreditStep) forwarder_->touch(peer);
  if (reader.is_malformed()) {
    ++forwarder_->counters().malformed_frames;
    limited_log_.warn(peer.identity.text + " sent a malformed frame; the rest of it is dropped");
  }
}

bool Broker::Impl::take_link_frame(Peer& peer, FrameReader& reader) {
  Link* link = forwarder_->find_link(peer.identity.key);
  if (link == nullptr || link->on_frame(reader, peer.identity.incarnation)) return link != nullptr;
  if (link->incarnation() == peer.identity.incarnation) return false;
  FrameReader::Message message;
  while (reader.next(message)) {
    ++forwarder_->counters().received;
    forwarder_->drop(message.envelope, Drop::old_life);
  }
  return false;
}

bool Broker::Impl::on_peer_message(Peer& peer, FrameReader::Message& message) {
  const Identity& who = peer.identity;
  if (who.is_link()) {
    on_link_message(who.key, who.incarnation, message);
    return false;
  }
  wire::Envelope& envelope = message.envelope;
  envelope.mutate_source_proc(who.key);
  envelope.mutate_source_host(forwarder_->own_key());
  envelope.mutate_source_incarnation(who.incarnation);
  envelope.mutate_role(who.role);
  envelope.mutate_hop(0);
  envelope.mutate_flags(envelope.flags() & ~(kFlagElsewhere | kFlagRelay));
  if (who.role < Role::operate && who.kind == wire::PeerKind::launcher) [[unlikely]] {
    if (const auto error = objection(peer, envelope)) {
      give_back(peer, envelope, *error);
      return false;
    }
  }
  if (envelope.destination_host() == 0) envelope.mutate_destination_host(forwarder_->own_key());
  return forwarder_->forward(envelope, message.body, message.apart, peer.connection);
}

std::optional<Error> Broker::Impl::objection(Peer& peer, const wire::Envelope& envelope) {
  if (envelope.kind() != wire::Kind::control) {
    if (peer.identity.role >= Role::proc) return std::nullopt;
    return Error(
        ErrorCode::unauthorised,
        "observers look at states and logs; messages and calls to procs take the key of a client");
  }
  if (requests_.take(peer.requests_rested, reactor_.now())) return std::nullopt;
  return Error(ErrorCode::queue_full,
               "whoever is no operator may ask hosts " +
                   std::to_string(options.config.count(keys::requests_rate)) +
                   " times a second (requests.rate), and ten times as often at once after a pause: "
                   "ask again later");
}

void Broker::Impl::give_back(Peer& peer, const wire::Envelope& envelope, const Error& error) {
  Counters& counters = forwarder_->counters();
  ++counters.received;
  ++counters.refused_messages;
  if (!std::exchange(peer.is_refused_told, true))
    log::warn(peer.identity.text + " (" + peer.identity.user + ") is refused: " + error.detail());
  forwarder_->give_back(envelope, error);
}

void Broker::Impl::on_released(ConnectionId connection, std::size_t bytes) {
  const auto found = connections.find(connection);
  if (found == connections.end()) return;
  Peer& peer = *found->second;
  peer.taken += bytes;
  if (peer.taken - peer.announced >= kCreditStep && !peer.is_ended) forwarder_->touch(peer);
}

void Broker::Impl::on_link_message(std::uint64_t host_key, std::uint64_t host_incarnation,
                                   FrameReader::Message message) {
  wire::Envelope& envelope = message.envelope;
  if (envelope.source_host() == 0 && envelope.source_proc() == 0) {
    // The other broker about the link itself; it leaves its own address out.
    envelope.mutate_source_host(host_key);
    envelope.mutate_source_incarnation(host_incarnation);
    envelope.mutate_role(Role::broker);
  }
  if (envelope.source_host() != host_key) {
    ++forwarder_->counters().received;
    forwarder_->drop(message.envelope, Drop::false_source);
    limited_log_.warn("a link sent a message of another host than its own; dropped");
    return;
  }
  // A broker vouches for its own peers: up to operators, and the one agent that its host has.
  if (envelope.source_proc() == 0) {
    envelope.mutate_role(Role::broker);
  } else if (envelope.role() > Role::operate) {
    const Link* link = forwarder_->find_link(host_key);
    const bool is_agent =
        link != nullptr && envelope.source_proc() == host_service(link->host()).key();
    envelope.mutate_role(is_agent ? Role::host : Role::operate);
  }
  forwarder_->forward(envelope, message.body, message.apart);
}

void Broker::Impl::on_own(const wire::Envelope& envelope, Bytes body) {
  const auto control = ControlMessage::decode(body);
  if (!control) {
    limited_log_.warn("a message to this broker: " + control.error().detail());
    return;
  }
  if (control->head().is_answer) return;
  const Request request{envelope,
                        {.id = control->head().id, .deadline_ms = control->head().deadline_ms}};
  if (const auto done = handlers_.dispatch(request, **control); !done)
    refuse(request, done.error());
}

}  // namespace meshbus
