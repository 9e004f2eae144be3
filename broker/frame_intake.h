#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "broker/access/request_rates.h"
#include "broker/broker_requests.h"
#include "broker/links/link_table.h"
#include "broker/observe/audit_trail.h"
#include "broker/observe/counters.h"
#include "broker/peers/peer.h"
#include "broker/router/cast_receiver.h"
#include "broker/router/peer_queues.h"
#include "broker/router/router.h"
#include "common/base/log.h"
#include "common/base/message_part.h"
#include "common/loop/reactor.h"
#include "common/wire/frame.h"
#include "wire/forward.h"

namespace meshbus {

/// Takes the frames of peers and links apart: writes into each message what is known of its source,
/// refuses what the source may not send, and passes the rest on. Lives on the reactor's thread.
class FrameIntake {
 public:
  /// `audit` may be null. `requests_rate`: requests to hosts that an observer or client may make
  /// each second, by all its connections together.
  FrameIntake(Reactor& reactor, Router& router, PeerQueues& queues, LinkTable& links,
              CastReceiver& casts, BrokerRequests& requests, Counters& counters, AuditTrail* audit,
              std::uint64_t requests_rate);

  /// A frame of a registered connection.
  void on_frame(Peer& peer, std::vector<MessagePart>& parts);
  /// The rest of a frame.
  void read(Peer& peer, FrameReader& reader);
  /// A message from the broker of that link, over our own session to it.
  void on_link_message(Link& link, FrameReader::Message message);

 private:
  /// Whether the messages of a link's frame are new.
  bool take_link_frame(Peer& peer, FrameReader& reader);
  void on_peer_message(Peer& peer, FrameReader::Message& message, Charge& charge);
  /// The broker that a message came from over a link.
  struct OtherBroker {
    /// The inbound link, or null.
    Peer* via;
    std::uint64_t host;
    std::uint64_t incarnation;
    /// The highest role that it vouches for.
    wire::Role ceiling;
  };
  void on_link_message(const OtherBroker& other, FrameReader::Message& message);
  void pass_on(Peer* via, FrameReader::Message& message, Charge& charge);
  /// Why this may not be sent on: an observer's data, or more requests than a peer may make whose
  /// role is below operate.
  std::optional<Error> objection(const Peer& peer, const wire::Envelope& envelope);
  /// Shows a control message to the audit trail.
  void audit_peer(const Peer& peer, const FrameReader::Message& message);
  void audit_link(std::uint64_t host, const FrameReader::Message& message);
  void give_back(Peer& peer, const wire::Envelope& envelope, const Error& error);

  Reactor& reactor_;
  Router& router_;
  PeerQueues& queues_;
  LinkTable& links_;
  CastReceiver& casts_;
  BrokerRequests& requests_;
  Counters& counters_;
  AuditTrail* audit_;
  std::uint64_t requests_rate_;
  RequestRates request_rates_;
  log::Limited limited_log_{10};
};

}  // namespace meshbus
