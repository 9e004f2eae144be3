#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "broker/links/link_stream.h"
#include "broker/peers/peer.h"
#include "broker/transport/listener.h"
#include "broker/transport/resolver.h"
#include "common/bus/session.h"
#include "common/loop/reactor.h"
#include "common/wire/outbox.h"
#include "common/wire/protocol.h"
#include "meshbus/address.h"
#include "meshbus/result.h"
#include "wire/forward.h"

namespace meshbus {

/// The way to one other host's broker. Opened when there is something to send, kept while it lasts,
/// opened anew after a loss.
///
/// There are two ways to the same broker: our own session, and the one that the other broker opened
/// to us, which is a Peer of ours. What is sent takes one of them until that one ends: the other's,
/// when it is there at the time of choosing or comes while ours is still connecting (it may be the
/// only one that can exist, behind an address translation); else ours. Neither is ever closed
/// because the other exists: the other broker may have chosen it.
///
/// Frames are numbered across all of them (link_stream.h): what a broken connection held is sent
/// again by the next one, within the delivery limit. After it, and when another life of the other
/// broker answers, what was never sent is returned, and of what was sent the fate is unknown. A
/// message that was pushed while one life of the other broker was known never reaches another one.
///
/// Lives on the reactor's thread.
class Link {
 public:
  struct Options {
    /// Of this broker.
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
    /// From the other broker, over our own session. `body` is valid during the call.
    std::function<void(Link&, const FrameReader::Message&)> on_message;
    /// A message that was pushed ends here: fate_unknown when it may have arrived; otherwise it has
    /// not: host_unreachable, link_lost, identity_mismatch, unauthorised, version_mismatch.
    std::function<void(const wire::Envelope&, const Error&)> on_return;
    /// Our own session is up; it is over, or could not be had.
    std::function<void(const Link&)> on_up;
    std::function<void(const Link&, const Error&)> on_down;
    /// There is something to send: call flush() at the end of the turn.
    std::function<void(Link&)> on_touched;
    /// Sends by that inbound connection.
    std::function<Listener::Sent(Peer&, Frame&)> send;
    /// The life of the other broker that this connection belongs to is over.
    std::function<void(Peer&)> on_superseded;
  };
  /// What all connections so far have come to.
  struct Totals {
    std::uint64_t delivered = 0;         ///< Messages that the other broker has taken.
    std::uint64_t replayed_frames = 0;   ///< Frames that were sent again.
    std::uint64_t duplicate_frames = 0;  ///< Frames that came again.
  };

  Link(Reactor& reactor, zmq::context_t& context, Resolver& resolver, HostAddr host,
       Options options, Events events, LinkStream::Memory memory);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  const HostAddr& host() const noexcept { return host_; }
  std::uint64_t key() const noexcept { return key_; }
  /// Of the other broker, as far as we know; 0 before.
  std::uint64_t incarnation() const noexcept { return stream_.memory().life; }

  bool is_dialled() const noexcept { return options_.is_dialled; }
  /// A peer that may ask for it has introduced that host.
  void allow_dialling() noexcept { options_.is_dialled = true; }
  /// Nothing is there that would be lost with it but memory(): no connection either way, none being
  /// made, no message.
  bool is_idle() const noexcept { return !has_own() && inbound_ == nullptr && held() == 0; }
  /// It is up, and the broker there takes part in casts by a tree of hosts.
  bool may_relay() const noexcept { return is_way_up() && (capabilities_ & kCapabilityRelay) != 0; }
  const LinkStream::Memory& memory() const noexcept { return stream_.memory(); }
  /// When it last had something to do.
  Reactor::Time last_used() const noexcept { return last_used_; }

  /// Queues a message; it leaves at the end of the turn, or once connected. False when the queue is
  /// full; `apart` is not moved from then.
  bool push(const wire::Envelope& envelope, Bytes body, zmq::message_t* apart);
  /// Sends what there is to send, as far as it goes.
  void flush();
  /// Whether such a life may open a session to us. Errors: identity_mismatch (a later one has been
  /// here).
  Result<void> may_attach(std::uint64_t life) const;
  /// The other broker has opened a session to us.
  void attach(Peer& inbound);
  /// Keys on disk have changed: a session with a broker whose key is not that of its host any more
  /// is made anew.
  void check_keys();
  /// That session is over. `is_last`: the other broker says that it ends.
  void detach(const Peer& inbound, bool is_last);
  /// A frame has come from that life of the other broker. False when its messages must not be
  /// taken: they are there already, or that life is over.
  bool on_frame(const FrameReader& frame, std::uint64_t life);
  /// For LinkHeader.ack of a frame that is not ours.
  std::uint64_t taken() const noexcept { return stream_.taken(); }
  const Totals& totals() const noexcept { return totals_; }
  /// Messages that the other broker has not taken.
  std::size_t held() const noexcept {
    return outbox_.count() + static_cast<std::size_t>(stream_.kept());
  }
  /// Sends what it can and ends our own session in order. What could not be sent by then is
  /// returned.
  void close(const std::string& reason);

 private:
  enum class Way { none, own, inbound };
  /// It is there, or being made.
  bool has_own() const noexcept { return session_ != nullptr || limit_timer_ != 0; }
  bool is_own_up() const noexcept { return session_ != nullptr && session_->is_up(); }
  bool is_way_up() const noexcept {
    return way_ == Way::inbound || (way_ == Way::own && is_own_up());
  }
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
  /// A life of the other broker answers. Errors: identity_mismatch (it is over).
  Result<void> meet(std::uint64_t life, std::uint64_t capabilities);
  /// No more is to be had of the present life.
  void end_life(const std::string& why);
  /// Our own session, and the attempts to have one, are over.
  void end_own(const Error& error);
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
  zmq::context_t& context_;
  Resolver& resolver_;
  HostAddr host_;
  std::uint64_t key_;
  Options options_;
  Events events_;

  Way way_ = Way::none;
  Peer* inbound_ = nullptr;
  std::unique_ptr<Session> session_;
  /// Of the other broker, as it said in our present session; 0 before.
  std::uint64_t session_life_ = 0;
  bool is_resolving_ = false;
  /// What has not been sent.
  Outbox outbox_;
  LinkStream stream_;
  /// There has been a connection to the present life since we last gave up: what is held is meant
  /// for it and no other.
  bool is_for_life_ = false;
  /// Whether the other broker acknowledges and knows duplicates.
  bool is_resuming_ = false;
  /// Of the life of the other broker that was met last.
  std::uint64_t capabilities_ = 0;
  /// Lives that a later one replaced, or that said Bye: they are met no more.
  std::deque<std::uint64_t> past_lives_;
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
  Reactor::Time last_used_;
  /// Bytes taken that the other broker has not been told of.
  std::size_t ack_owed_ = 0;
  bool is_ack_due_ = false;
  bool is_touched_ = false;
  Totals totals_;
  /// Lets posted work see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
