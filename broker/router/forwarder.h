#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <zmq.hpp>

#include "broker/access/recent_set.h"
#include "broker/casts/cast_arrivals.h"
#include "broker/casts/cast_relays.h"
#include "broker/links/link.h"
#include "broker/observe/counters.h"
#include "broker/observe/monitor.h"
#include "broker/router/route_table.h"
#include "broker/router/waiting_room.h"
#include "broker/transport/listener.h"
#include "broker/transport/resolver.h"
#include "common/loop/reactor.h"
#include "common/security/keys.h"
#include "common/wire/frame.h"
#include "meshbus/address.h"
#include "meshbus/result.h"
#include "wire/forward.h"
#include "wire/frame_generated.h"

namespace meshbus {

class CastBody;
class Tap;

/// Other hosts that a broker knows at a time.
inline constexpr std::size_t kMostLinks = 16384;
/// Senders wait so long for one that takes nothing.
inline constexpr std::chrono::milliseconds kPatience{1000};

/// Brings each message one step further: into the outbox of a local peer, into a link, to the
/// broker itself, into the waiting room, or back to its sender. Sees to it that every message is
/// counted once (counters.h). Reads envelopes only. Lives on the reactor's thread.
class Forwarder {
 public:
  struct Options {
    HostAddr host;
    std::uint64_t incarnation = 0;
    bool insecure = false;
    /// For tcp, unless `insecure`.
    std::optional<KeyDirectory> keys = {};
    std::uint8_t hop_limit = 64;
    /// Hosts that a large cast is sent to by one host.
    std::size_t cast_width = 16;
    /// For each other host.
    Outbox::Limits link_queue{.bytes = 0, .count = 0};
    WaitingRoom::Limits waiting{.wait = {}, .bytes = 0, .count = 0};
    std::chrono::milliseconds link_connect_limit{5000};
    std::chrono::milliseconds delivery_limit{30000};
    Protocol protocol = {};
    /// See BrokerOptions.
    std::uint64_t capabilities = kCapabilities;
  };
  struct Events {
    /// A message for this broker itself.
    std::function<void(const wire::Envelope&, Bytes)> on_own;
    /// From the broker of that link, over our own session to it.
    std::function<void(Link&, const FrameReader::Message&)> on_link_message;
    /// The connection of that peer has ended, as a send told.
    std::function<void(Peer&)> on_lost;
    /// So many bytes of data from that connection, which were kept here, have left.
    std::function<void(ConnectionId, std::size_t bytes)> on_released;
  };

  Forwarder(Reactor& reactor, zmq::context_t& context, RouteTable& routes, Options options,
            Events events);
  ~Forwarder();
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  /// Frames for local peers leave here. Set once, before anything is sent.
  void set_listener(Listener& listener) { listener_ = &listener; }
  /// Hears of links, and of what is returned and dropped. Set once, or not.
  void set_monitor(Monitor* monitor) { monitor_ = monitor; }

  /// Gets a copy of every message that is passed on; null = nobody wants any.
  void set_tap(Tap* tap) { tap_ = tap; }

  /// A message of a registered peer or link. Its source and role are written already; its hop is
  /// counted here. True when it is kept here and `debtor`, the connection it came by, will be
  /// released of its bytes; never for control, nor for Debts::kNobody.
  bool forward(wire::Envelope& envelope, Bytes body, zmq::message_t* apart,
               std::uint64_t debtor = Debts::kNobody);
  /// A control message of the broker itself to a proc, here or elsewhere. Not returned when it
  /// cannot be delivered.
  void originate(std::uint64_t proc, std::uint64_t host, const std::string& body);
  /// A control message about the session itself to a peer or an inbound link.
  void originate_to(Peer& peer, const std::string& body);
  /// Counts a message that ends here without anybody being told.
  void drop(const wire::Envelope& envelope, Drop reason);
  /// Tells the sender of a message that it was not delivered.
  void give_back(const wire::Envelope& envelope, const Error& error);

  /// The link to that host, made if need be. Without `is_dialled` it takes connections of that
  /// host's broker, and makes none itself, unless another introduction allows that. Errors:
  /// unroutable (our own address, one that cannot be reached, too many), identity_mismatch.
  Result<Link*> introduce(const HostAddr& host, bool is_dialled = true);
  /// Or null.
  Link* find_link(std::uint64_t host);
  /// Remembers why that host was not introduced, for those who send to it all the same.
  void refuse_host(std::uint64_t host, const Error& error) { refused_hosts_.add(host, error); }

  /// Sends to that peer at the end of the turn.
  void touch(Peer& peer);
  /// Its socket was full and may have room now.
  void unblock(Peer& peer);
  /// It has registered: what waited for it goes there.
  void release_waiting(const Peer& peer);
  /// Returns everything that waits to leave for it.
  void return_outbox(Peer& peer, const Error& error);
  /// Hands everything that waits to leave for `from` to `to`, its new connection.
  void move_outbox(Peer& from, Peer& to);
  /// Drops every mention of a peer that is about to be destroyed.
  void forget(Peer& peer);
  /// Sends what there is to send. At the end of each turn.
  void flush();
  void close_links(const std::string& reason);
  /// Keys on disk have changed.
  void check_links();

  Counters& counters() noexcept { return counters_; }
  /// The counters, those of links included.
  Counters all_counters() const;
  /// Messages in the waiting room and in links.
  std::size_t held() const noexcept;
  std::uint64_t own_key() const noexcept { return own_key_; }
  std::string undeliverable_detail(std::uint64_t proc) const;

 private:
  bool deliver(const wire::Envelope& envelope, Bytes body, zmq::message_t* apart,
               std::uint64_t debtor);
  bool deliver_local(const wire::Envelope& envelope, Bytes body, zmq::message_t* apart,
                     std::uint64_t debtor);
  /// A message to the ranks of a mesh: a copy for each of them that lives here and, from a peer of
  /// ours, one for each other host. True as deliver().
  bool fan_out(const wire::Envelope& envelope, Bytes body, zmq::message_t* apart,
               std::uint64_t debtor);
  bool cast_here(const wire::Envelope& envelope, const CastBody& cast, const wire::RegionT& view,
                 Bytes body, zmq::message_t* apart, std::uint64_t debtor);
  static Error queue_is_full(const Link& link);
  void cast_on(const wire::Envelope& envelope, const CastBody& cast, const wire::RegionT& view,
               Bytes body, zmq::message_t* apart, std::uint64_t debtor);
  /// Whether what came by that connection may go by that link (may_dial). What came by none is our
  /// own or a local peer's.
  static Result<void> may_use(const Link& link, std::uint64_t debtor);
  /// Sends a large body on its way by a tree of those hosts that can do that. The number of the
  /// cast; 0 = it is to be sent to each.
  std::uint64_t relay(const std::vector<std::uint64_t>& hosts, zmq::message_t& body);
  /// What goes by the link in place of that body.
  static std::string elsewhere(std::uint64_t number, Bytes body);
  /// Sends a body to these hosts, by at most cast_width of them.
  void pass_on(std::uint64_t number, const std::vector<HostAddr>& hosts, zmq::message_t& body);
  /// False when there is no room.
  bool say_relay(Link& link, wire::RelayPort what, std::uint64_t number, Bytes body,
                 zmq::message_t* apart);
  /// From another host's broker.
  void on_relay(const wire::Envelope& envelope, Bytes body, zmq::message_t* apart);
  /// Whether this message of another host was kept here, until the body of a cast is there.
  bool hold(const wire::Envelope& envelope, Bytes body, zmq::message_t* apart);
  void take_arrivals(std::vector<CastArrivals::Message> messages);
  void arm_relays();
  /// It has taken nothing for long: who casts does not wait for it.
  bool is_stuck(const Peer* peer) const;
  /// Bytes of copies for peers here have left.
  void release_cast(std::uint64_t id, std::size_t bytes);
  void flush(Peer& peer);
  /// Sends a frame of a link by the connection that the other broker opened.
  Listener::Sent send(Peer& peer, Frame& frame);
  /// False when it cannot be sent now.
  bool hand_over(Peer& peer, Frame& frame);
  void release(Peer& peer, std::size_t bytes);
  void tell_released(std::uint64_t debtor, std::size_t bytes) {
    if (debtor > kConnectionsEnd) return release_cast(debtor, bytes);
    events_.on_released(debtor, bytes);
  }
  /// Whoever waits for one that takes nothing gets credit again after a while, and so can send to
  /// others.
  void arm_patience();
  void on_patience();
  void arm_expiry();
  void arm_retry();
  void unblock_all();
  wire::Envelope own_envelope() noexcept;
  /// Forgets the link that has been idle longest; false when none is.
  bool evict_link();

  Reactor& reactor_;
  zmq::context_t& context_;
  RouteTable& routes_;
  Options options_;
  Events events_;
  std::uint64_t own_key_;
  /// Of the controller that may be at home here.
  std::uint64_t controller_key_;
  Listener* listener_ = nullptr;
  Monitor* monitor_ = nullptr;
  Tap* tap_ = nullptr;
  Counters counters_;
  std::uint64_t next_sequence_ = 1;
  Resolver resolver_;
  WaitingRoom waiting_;
  Reactor::TimerId expiry_timer_ = 0;
  std::unordered_map<std::uint64_t, std::unique_ptr<Link>> links_;
  /// Of links that were forgotten: their numbers go on.
  RecentSet<std::uint64_t, LinkStream::Memory> link_memories_;
  RecentSet<std::uint64_t, Error> refused_hosts_{1024};
  std::vector<Link*> touched_links_;
  /// Peers with something to send; those whose socket was full and does not say when it is not.
  std::vector<Peer*> touched_;
  std::vector<Peer*> blocked_;
  Reactor::TimerId retry_timer_ = 0;
  /// Peers that had data and did not take it, when that was noticed.
  std::vector<Peer*> slow_;
  /// What was returned because a queue was full: counts against its sender a while longer, so that
  /// nobody sends faster for that.
  Debts returned_;
  Reactor::TimerId patience_timer_ = 0;
  /// A cast whose copies have not all left: its sender gets credit for it when they have.
  struct CastDebt {
    std::uint64_t debtor;
    std::size_t size;
    std::size_t left;
  };
  /// By a number that no connection has.
  std::unordered_map<std::uint64_t, CastDebt> cast_debts_;
  std::uint64_t next_cast_debt_ = kConnectionsEnd + 1;
  CastRelays relays_;
  CastArrivals arrivals_;
  /// To whom the next body of that number is to be passed on, as another host's broker said.
  struct ToPassOn {
    std::uint64_t number = 0;
    std::vector<HostAddr> hosts = {};
  };
  RecentSet<std::uint64_t, ToPassOn> to_pass_on_{64};
  Reactor::TimerId relay_timer_ = 0;
};

}  // namespace meshbus
