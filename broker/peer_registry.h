#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "broker/handshake.h"
#include "broker/links/link_table.h"
#include "broker/observe/monitor.h"
#include "broker/peers/connection_table.h"
#include "broker/peers/peer.h"
#include "broker/router/peer_queues.h"
#include "broker/router/router.h"
#include "broker/transport/listener.h"
#include "broker/watchers.h"
#include "common/loop/reactor.h"
#include "common/wire/outbox.h"
#include "wire/bus_generated.h"

namespace meshbus {

/// Registers peers and links, keeps idle connections alive, and ends what has gone. Lives on the
/// reactor's thread.
class PeerRegistry {
 public:
  struct Options {
    Outbox::Limits peer_queue{.bytes = 0, .count = 0};
    Outbox::Limits link_queue{.bytes = 0, .count = 0};
    std::chrono::milliseconds heartbeat{1000};
    /// What a Welcome says of this broker; version and role are each peer's.
    wire::WelcomeT welcome = {};
  };
  /// `monitor` may be null.
  PeerRegistry(Reactor& reactor, Listener& listener, ConnectionTable& connections,
               PeerQueues& queues, Router& router, LinkTable& links, Watchers& watchers,
               Monitor* monitor, Options options);
  ~PeerRegistry();
  PeerRegistry(const PeerRegistry&) = delete;
  PeerRegistry& operator=(const PeerRegistry&) = delete;

  /// Registers an admitted connection, in place of an older one of the same proc or host.
  Peer& add(const Admitted& admitted);
  /// Stops sending to that peer and returns what waits for it. Its last messages are still taken
  /// for a while, and its watchers told after these. `is_last`: a link's broker ends, too.
  void end(Peer& peer, const std::string& reason, bool is_last = false);
  /// Whether procs may use direct paths (DirectRule in bus.fbs): tells them when that changes.
  void set_direct(bool is_allowed);

 private:
  void add_link(Peer& peer);
  void add_proc(Peer& peer);
  void welcome(Peer& peer);
  void tell_rule(Peer& peer);
  void destroy_later(ConnectionId connection);
  void on_heartbeat_timer();

  Reactor& reactor_;
  Listener& listener_;
  ConnectionTable& connections_;
  PeerQueues& queues_;
  Router& router_;
  LinkTable& links_;
  Watchers& watchers_;
  Monitor* monitor_;
  Options options_;
  bool is_direct_ = false;
  Reactor::TimerId heartbeat_timer_ = 0;
  const std::string heartbeat_body_;
  /// Lets a timer see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
