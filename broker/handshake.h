#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "broker/access/admission.h"
#include "broker/access/handshake_timeouts.h"
#include "broker/access/host_joining.h"
#include "broker/access/key_service.h"
#include "broker/links/link_table.h"
#include "broker/observe/audit_trail.h"
#include "broker/observe/counters.h"
#include "broker/observe/monitor.h"
#include "broker/peers/connection_table.h"
#include "broker/router/router.h"
#include "broker/transport/listener.h"
#include "common/base/log.h"
#include "common/base/message_part.h"
#include "common/loop/reactor.h"
#include "common/wire/frame.h"
#include "meshbus/result.h"
#include "wire/forward.h"

namespace meshbus {

/// A connection that has not registered, and what is known of its other end.
struct PendingConnection {
  ConnectionId id;
  int descriptor;
  Credentials credentials;
};

/// A connection that has said Hello and may register, and the rest of the frame with its Hello.
struct Admitted {
  PendingConnection connection;
  Identity identity;
  FrameReader rest;
};

/// Decides which pending connections become peers, and closes those that say no Hello in time.
/// Lives on the reactor's thread.
class Handshake {
 public:
  struct Options {
    Admission::Options admission;
    std::optional<TokenMaker> tokens;
    HandshakeTimeouts::Limits limits;
  };
  /// `keys`, `monitor` and `audit` may be null.
  Handshake(Reactor& reactor, Listener& listener, ConnectionTable& connections, Router& router,
            LinkTable& links, Counters& counters, KeyService* keys, Monitor* monitor,
            AuditTrail* audit, Options options);
  ~Handshake();
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  /// A frame of a connection that is not registered. Nothing when it is refused, takes a join
  /// token, or says something else; `parts` must outlive what is returned.
  std::optional<Admitted> on_frame(ConnectionId from, std::vector<MessagePart>& parts);
  void on_opened(int descriptor);
  /// The connection has ended, or has registered.
  void on_done(ConnectionId connection, int descriptor) {
    refused_.erase(connection);
    timeouts_.done(descriptor);
  }

 private:
  /// The Hello of a frame, decoded. Nothing when the frame is something else, which is counted.
  std::optional<ControlMessage> read_hello(PendingConnection& connection, FrameReader& reader);
  /// Errors: those of Admission, and identity_mismatch for a name in use.
  Result<Identity> identify(const PendingConnection& connection, const wire::Hello& hello);
  /// Whether the other broker may open a link. Errors: unroutable, identity_mismatch.
  Result<void> may_link(const PendingConnection& connection, const Identity& identity);
  /// The token that the connection has proven to have, when it is nothing else; or null.
  const TokenRecord* token_of(const Credentials& credentials) const;
  void join(const PendingConnection& connection, TokenRecord token, const wire::Hello& hello);
  /// Tells the connection why, and closes it a moment later unless it leaves.
  void refuse(const PendingConnection& connection, const Error& error);
  /// The connection has sent what makes no sense: ignores it, and closes it soon.
  void give_up_on(int descriptor, std::uint64_t& counter);
  /// Writes into the audit trail what came of a Hello.
  void audit(const Credentials& credentials, const std::string& verb, const std::string& what,
             const std::string& outcome);
  Credentials credentials_of(const Listener::Origin& origin) const;
  void arm_timer();
  void on_timer();

  Reactor& reactor_;
  Listener& listener_;
  ConnectionTable& connections_;
  Router& router_;
  LinkTable& links_;
  Counters& counters_;
  KeyService* keys_;
  Monitor* monitor_;
  AuditTrail* audit_;
  Admission admission_;
  std::optional<HostJoining> joining_;
  HandshakeTimeouts timeouts_;
  /// Connections that were refused: what else they send until they end is ignored.
  std::unordered_set<ConnectionId> refused_;
  Reactor::TimerId timer_ = 0;
  log::Limited limited_log_{10};
};

}  // namespace meshbus
