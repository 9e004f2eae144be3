#pragma once

#include <functional>
#include <optional>

#include "broker/links/link_chaos.h"
#include "broker/links/link_table.h"
#include "broker/observe/audit_trail.h"
#include "broker/observe/counters.h"
#include "broker/peer_registry.h"
#include "broker/peers/peer.h"
#include "broker/router/router.h"
#include "broker/watchers.h"
#include "common/base/log.h"
#include "common/wire/context_dispatcher.h"
#include "common/wire/control.h"
#include "meshbus/result.h"
#include "wire/forward.h"

namespace meshbus {

/// Answers the requests to the broker itself (bus.fbs). Lives on the reactor's thread.
/// Large because: it knows each part that answers one of these requests.
class BrokerRequests {
 public:
  /// What a broker tells of itself (GetHost).
  using Tell = std::function<wire::HostStateT()>;

  /// `audit` may be null.
  BrokerRequests(Router& router, LinkTable& links, PeerRegistry& registry, Watchers& watchers,
                 Counters& counters, AuditTrail* audit, LinkChaos chaos, Tell tell);

  /// A control message to this broker. `via` is the peer or inbound link that it came by; null when
  /// it came over our own session to another broker.
  void handle(Peer* via, const wire::Envelope& envelope, Bytes body);

 private:
  void on_hello(Peer* via, const Request& request, const wire::Hello& hello);
  void on_bye(Peer* via, const Request& request, const wire::Bye& bye);
  void on_introduce(Peer* via, const Request& request, const wire::Introduce& introduce);
  void on_watch(Peer* via, const Request& request, const wire::Watch& watch);
  /// `text`: of the proc, or nothing.
  void watch(const Request& request, std::uint64_t key, const std::string& text);
  void on_direct_traffic(Peer* via, const Request& request, const wire::DirectTraffic& traffic);
  void on_get_events(Peer* via, const Request& request, const wire::GetEvents& get);
  void on_start_chaos(Peer* via, const Request& request, const wire::StartChaos& start);
  /// Errors: unroutable, unauthorised, identity_mismatch.
  Result<void> introduce(Peer* via, const Request& request, const HostAddr& other);
  /// Counts a refusal by dial policy, and logs it once per peer.
  void log_refusal(Peer* via, const Error& error);
  void answer(const Request& request, const ControlBody& body);
  void refuse(const Request& request, const Error& error);

  Router& router_;
  LinkTable& links_;
  PeerRegistry& registry_;
  Watchers& watchers_;
  Counters& counters_;
  AuditTrail* audit_;
  LinkChaos chaos_;
  Tell tell_;
  ContextDispatcher<Peer*> handlers_;
  log::Limited limited_log_{10};
};

}  // namespace meshbus
