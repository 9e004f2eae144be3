#pragma once

#include <cstdint>
#include <string>

#include "broker/links/link_table.h"
#include "broker/observe/counters.h"
#include "broker/observe/monitor.h"
#include "broker/observe/tap.h"
#include "broker/peers/peer.h"
#include "broker/router/own_host.h"
#include "broker/router/peer_queues.h"
#include "broker/router/route_table.h"
#include "broker/router/waiting_room.h"
#include "common/base/message_part.h"
#include "common/loop/reactor.h"
#include "meshbus/address.h"
#include "meshbus/result.h"
#include "wire/forward.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// Brings each message one step further: into the queue of a local peer, into a link, into the
/// waiting room, or back to its sender. Counts every message once (counters.h). Reads envelopes
/// only. Lives on the reactor's thread.
class Router {
 public:
  struct Options {
    HostAddr host;
    std::uint64_t incarnation = 0;
    std::uint8_t hop_limit = 64;
    WaitingRoom::Limits waiting{.wait = {}, .bytes = 0, .count = 0};
  };
  /// `monitor` and `tap` may be null.
  Router(Reactor& reactor, PeerQueues& queues, LinkTable& links, Counters& counters,
         Monitor* monitor, Tap* tap, Options options);
  ~Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  /// Counts a message of a registered peer or link, and its hop. False when it has passed too many
  /// brokers and was given back.
  bool admit(wire::Envelope& envelope);
  /// Whether the message is for this broker itself: a request, a cast or a body of one.
  bool is_own(const wire::Envelope& envelope) const noexcept {
    return envelope.destination_proc() == 0 && own_.is_here(envelope.destination_host());
  }
  /// Delivers a message whose source and role are written already. Not for casts to this host.
  void deliver(const wire::Envelope& envelope, Bytes body, MessagePart* detached, Charge& charge);
  /// The same for a proc of this host, without the tap.
  void deliver_here(const wire::Envelope& envelope, Bytes body, MessagePart* detached,
                    Charge& charge);
  /// Sends a control message of the broker itself to a proc, here or elsewhere. It is not returned
  /// when it cannot be delivered.
  void originate(std::uint64_t proc, std::uint64_t host, const std::string& body);
  /// Sends a control message about the session itself to a peer or an inbound link.
  void originate_to(Peer& peer, const std::string& body);
  /// The envelope of such a message, without its destination. Uses up a number.
  wire::Envelope own_envelope() noexcept;
  /// Copies a message to the tap, if somebody listens there.
  void tap(const wire::Envelope& envelope, Bytes body) {
    if (tap_ != nullptr && tap_->is_wanted()) [[unlikely]]
      tap_->copy(envelope, body);
  }

  /// Tells the sender of a message that it was not delivered.
  void give_back(const wire::Envelope& envelope, const Error& error);
  /// Counts a message that ends here without a report to anybody.
  void drop(const wire::Envelope& envelope, Drop reason);
  /// Whether a message with that charge may go by that link (may_dial). Messages without a sender
  /// are the broker's own, or were checked before.
  static Result<void> may_use(const Link& link, const Charge& charge);
  static Error queue_is_full(const Link& link);

  /// The proc has registered: delivers what waited for it.
  void release_waiting(std::uint64_t proc);
  /// Gives back everything that waits to leave for that peer.
  void return_all(Peer& peer, const Error& error);
  /// Hands everything that waits to leave for `from` to `to`, its new connection.
  void move_all(Peer& from, Peer& to);
  /// Gives back what links have given up.
  void return_given_up();

  RouteTable& routes() noexcept { return routes_; }
  const RouteTable& routes() const noexcept { return routes_; }
  const OwnHost& own() const noexcept { return own_; }
  /// Messages in the waiting room.
  std::size_t held() const noexcept { return waiting_.count(); }

 private:
  void deliver_by_link(const wire::Envelope& envelope, Bytes body, MessagePart* detached,
                       const Charge& charge);
  /// Keeps a message for a proc that has not registered yet, or gives it back.
  void wait_or_give_back(const wire::Envelope& envelope, Bytes body, MessagePart* detached);
  void arm_expiry();

  Reactor& reactor_;
  PeerQueues& queues_;
  LinkTable& links_;
  Counters& counters_;
  Monitor* monitor_;
  Tap* tap_;
  OwnHost own_;
  std::uint8_t hop_limit_;
  /// The agent of this host.
  std::uint64_t agent_key_;
  /// The controller that may have registered here.
  std::uint64_t controller_key_;
  RouteTable routes_;
  std::uint64_t next_sequence_ = 1;
  WaitingRoom waiting_;
  Reactor::TimerId expiry_timer_ = 0;
};

}  // namespace meshbus
