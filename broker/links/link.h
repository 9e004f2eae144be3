#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "broker/links/link_fault.h"
#include "broker/links/link_stream.h"
#include "broker/observe/counters.h"
#include "broker/peers/peer.h"
#include "broker/transport/listener.h"
#include "common/base/message_part.h"
#include "common/bus/session.h"
#include "common/loop/reactor.h"
#include "common/wire/outbox.h"
#include "common/wire/protocol.h"
#include "common/zmtp/resolver.h"
#include "meshbus/address.h"
#include "meshbus/result.h"
#include "wire/forward.h"

namespace meshbus {

/// The way to one other host's broker: opened when there is something to send, kept while it lasts,
/// opened again after a loss.
///
/// There are two ways to the same broker: our own session, and the one that the other broker opened
/// to us, which is a Peer of ours. What is sent takes one of them until that one ends: the other's,
/// when it is there at the time of choosing or comes while ours is still connecting (it may be the
/// only one that can exist, behind an address translation); else ours. Neither is ever closed
/// because the other exists: the other broker may have chosen it.
///
/// Frames are numbered across all of them (link_stream.h): what a broken connection held is sent
/// again by the next one, within the delivery limit. After it, and when another incarnation of
/// the other broker answers, what was never sent is returned, and the fate of what was sent is
/// unknown. A message that was pushed while one incarnation of the other broker was known never
/// reaches another one.
///
/// Lives on the reactor's thread.
///
/// Large because: which of the two connections carries what, and until when, is one state with the
/// times of both.
class Link {
 public:
  struct Options {
    /// This broker's own.
    HostAddr own_host;
    std::uint64_t incarnation = 0;
    Outbox::Limits limits{.bytes = 0, .count = 0};
    /// From the first message to host_unreachable.
    std::chrono::milliseconds connect_limit{5000};
    /// From the loss of the connection to giving up.
    std::chrono::milliseconds delivery_limit{30000};
    /// See Session::Options.
    std::function<Result<CurveKeys>()> keys = {};
    Protocol protocol = {};
    /// See BrokerOptions.
    std::uint64_t capabilities = kCapabilities;
    /// We may connect to the other broker ourselves, and do not only wait for it to connect.
    bool is_dialled = true;
  };
  struct Events {
    /// A message from the other broker, over our own session. `body` is valid during the call.
    std::function<void(Link&, const FrameReader::Message&)> on_message;
    /// A message that was pushed ends here: fate_unknown when it may have arrived; otherwise it has
    /// not: host_unreachable, link_lost, identity_mismatch, unauthorised, version_mismatch.
    std::function<void(const wire::Envelope&, const Error&)> on_return;
    /// Our own session is up.
    std::function<void(const Link&)> on_up;
    /// Our own session is over, or could not be had.
    std::function<void(const Link&, const Error&)> on_down;
    /// There is something to send: call flush() at the end of the turn.
    std::function<void(Link&)> on_touched;
    /// Sends by that inbound connection.
    std::function<Listener::Sent(Peer&, Frame&)> send;
    /// The incarnation of the other broker that this connection belongs to is over.
    std::function<void(Peer&)> on_superseded;
  };

  Link(Reactor& reactor, Resolver& resolver, Counters& counters, HostAddr host, Options options,
       Events events, LinkStream::Memory memory);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  const HostAddr& host() const noexcept { return host_; }
  std::uint64_t key() const noexcept { return key_; }
  /// The other broker's, as far as we know; 0 before.
  std::uint64_t incarnation() const noexcept { return stream_.memory().incarnation; }

  /// Messages get through, one way or the other.
  bool is_way_up() const noexcept {
    return way_ == Way::inbound || (way_ == Way::own && is_own_up());
  }
  bool is_dialled() const noexcept { return options_.is_dialled; }
  /// A peer that may ask for it has introduced that host.
  void allow_dialling() noexcept { options_.is_dialled = true; }
  /// Nothing but memory() would be lost with it: there is no connection either way, none is being
  /// made, and no message waits.
  bool is_idle() const noexcept {
    return !has_own() && inbound_ == nullptr && held() == 0 && !is_disturbed();
  }
  /// It is up, and the broker there takes part in casts by a tree of hosts.
  bool may_relay() const noexcept { return is_way_up() && (capabilities_ & kCapabilityRelay) != 0; }
  const LinkStream::Memory& memory() const noexcept { return stream_.memory(); }

  /// Queues a message; it leaves at the end of the turn, or once connected. False when the queue is
  /// full; `detached` is not moved from then.
  bool push(const wire::Envelope& envelope, Bytes body, MessagePart* detached);
  /// Sends what there is to send, as far as it goes.
  void flush();
  /// Whether that incarnation of the other broker may open a session to us. Errors:
  /// identity_mismatch (a later one has been here), link_lost (the link is cut on purpose: it hears
  /// nothing of us).
  Result<void> may_attach(std::uint64_t theirs) const;
  /// The other broker has opened a session to us.
  void attach(Peer& inbound);
  /// Does that to this link on purpose, until the order's end. False: it is disturbed already.
  bool disturb(const LinkFault::Order& order);
  bool is_disturbed() const noexcept { return fault_timer_ != 0; }
  /// Keys on disk have changed: a session with a broker whose key is not that of its host any more
  /// is made anew.
  void check_keys();
  /// The session that the other broker opened is over. `is_last`: the other broker ends, too.
  void detach(const Peer& inbound, bool is_last);
  /// The connection that the other broker opened, or null.
  Peer* inbound() const noexcept { return inbound_; }
  /// A frame has come from that incarnation of the other broker. False when its messages must not
  /// be taken: they are there already, or that incarnation is over.
  bool on_frame(const FrameReader& frame, std::uint64_t theirs);
  /// For LinkHeader.ack of a frame that is not ours.
  std::uint64_t taken() const noexcept { return stream_.taken(); }
  /// Messages that the other broker has not taken.
  std::size_t held() const noexcept {
    return outbox_.count() + static_cast<std::size_t>(stream_.kept());
  }
  /// Their bytes.
  std::size_t held_bytes() const noexcept { return outbox_.bytes() + stream_.kept_bytes(); }
  /// Sends what it can and ends our own session in order. What could not be sent by then is
  /// returned.
  void close(const std::string& reason);

 private:
  enum class Way { none, own, inbound };
  /// It is there, or being made.
  bool has_own() const noexcept { return session_ != nullptr || limit_timer_ != 0; }
  bool is_own_up() const noexcept { return session_ != nullptr && session_->is_up(); }
  /// Leaves way_ at none when the other broker is not connected and we may not connect.
  void choose();
  /// The way is there: what is kept goes by it, from the start.
  void take_way(Way way);
  void open();
  void resolve();
  void try_next_endpoint();
  void open_session(const std::string& endpoint);
  void on_welcome(const wire::Welcome& welcome);
  void on_lost(const std::string& reason);
  void on_connect_limit();
  /// Until when what is held waits for a connection.
  Reactor::Time deadline() const;
  /// An incarnation of the other broker answers. Errors: identity_mismatch (it is over).
  Result<void> meet(std::uint64_t theirs, std::uint64_t capabilities);
  /// The present incarnation of the other broker is over.
  void end_incarnation(const std::string& why);
  /// The connection that the other broker opened belongs to an incarnation that is over.
  void drop_inbound();
  /// Our own session, and the attempts to have one, are over.
  void end_own(const Error& error);
  /// Ends both connections, as a network that breaks would.
  void cut();
  void end_fault();
  /// Everything that is held ends.
  void give_up(const Error& error);
  /// Destroys the session in a later turn, because it may be calling us.
  void retire_session();
  Error not_dialled() const;
  Listener::Sent send(Way way, Frame& frame, std::uint64_t number);
  void send_ack();
  void touch();
  void retry_later();
  void watch_progress();

  Reactor& reactor_;
  Resolver& resolver_;
  Counters& counters_;
  HostAddr host_;
  std::uint64_t key_;
  Options options_;
  Events events_;

  Way way_ = Way::none;
  Peer* inbound_ = nullptr;
  std::unique_ptr<Session> session_;
  /// The other broker's, as it said in our present session; 0 before.
  std::uint64_t session_incarnation_ = 0;
  bool is_resolving_ = false;
  /// What has not been sent.
  Outbox outbox_;
  LinkStream stream_;
  /// There has been a connection to the present incarnation since we last gave up: what is held is
  /// meant for it and no other.
  bool is_for_incarnation_ = false;
  /// Whether the other broker acknowledges and knows duplicates.
  bool is_resuming_ = false;
  /// The other broker has said by one of two connections that it ends. The other one is read to its
  /// end first.
  bool has_said_bye_ = false;
  /// Those of the incarnation of the other broker that was met last.
  std::uint64_t capabilities_ = 0;
  /// Incarnations that a later one replaced, or that said Bye: they may not come back.
  std::deque<std::uint64_t> past_incarnations_;
  std::vector<std::string> endpoints_;
  std::size_t next_endpoint_ = 0;
  /// Why the last attempt to connect failed.
  std::string trouble_;
  Reactor::Time opened_;
  /// When the last connection broke; nothing while there is one, and when none did.
  std::optional<Reactor::Time> lost_;
  /// When the other broker last acknowledged something, or what is held now began to be.
  Reactor::Time progress_;
  Reactor::TimerId limit_timer_ = 0;
  Reactor::TimerId slice_timer_ = 0;
  Reactor::TimerId retry_timer_ = 0;
  Reactor::TimerId ack_timer_ = 0;
  Reactor::TimerId progress_timer_ = 0;
  LinkFault fault_;
  /// Set while the link is disturbed.
  Reactor::TimerId fault_timer_ = 0;
  /// Bytes taken that the other broker has not been told of.
  std::size_t ack_owed_ = 0;
  bool is_ack_due_ = false;
  bool is_touched_ = false;
  /// Lets posted work see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
