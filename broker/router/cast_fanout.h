#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "broker/links/link_table.h"
#include "broker/observe/counters.h"
#include "broker/router/cast_relay.h"
#include "broker/router/peer_queues.h"
#include "broker/router/router.h"
#include "common/base/message_part.h"
#include "wire/forward.h"

namespace meshbus {

class CastBody;

/// Messages to the ranks of a mesh (spec 7.4): one comes, many leave. Lives on the reactor's
/// thread.
class CastFanout {
 public:
  CastFanout(Router& router, PeerQueues& queues, LinkTable& links, CastRelay& relay,
             Counters& counters)
      : router_(router), queues_(queues), links_(links), relay_(relay), counters_(counters) {}

  /// Makes a copy for each rank that lives here and, of a cast of a peer, one for each other host.
  /// `body` may be moved from when it is `detached`.
  void spread(const wire::Envelope& envelope, Bytes body, MessagePart* detached, Charge& charge);

 private:
  /// One cast that is being spread.
  struct Spread;
  void send_here(const Spread& cast, Charge& charge);
  void send_to_hosts(const Spread& cast, const Charge& charge);
  /// The hosts of the cast, this one left out, in the order of their first ranks. Those that the
  /// sender may not reach are returned to it.
  std::vector<std::uint64_t> hosts_of(const Spread& cast, const Charge& charge);
  void send_to_host(const Spread& cast, std::uint64_t host);

  Router& router_;
  PeerQueues& queues_;
  LinkTable& links_;
  CastRelay& relay_;
  Counters& counters_;
};

}  // namespace meshbus
