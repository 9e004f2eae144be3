#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "broker/peer.h"
#include "broker/resolver.h"
#include "common/outbox.h"
#include "common/protocol.h"
#include "common/reactor.h"
#include "common/session.h"
#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus {

/// The way to one other host's broker. Opened when there is something to send, kept while it lasts, opened anew after a loss.
///
/// There are two ways to the same broker: our own session, and the one that the other broker opened to us, which is a Peer of ours. What is
/// sent takes one of them until that one ends, so that order is kept: the other's, when it is there at the time of choosing or comes while
/// ours is still connecting (it may be the only one that can exist, behind an address translation); else ours. Neither is ever closed
/// because the other exists: the other broker may have chosen it.
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
    Protocol protocol = {};
  };
  struct Events {
    /// From the other broker, over our own session. `body` is valid during the call.
    std::function<void(Link&, const FrameReader::Message&)> on_message;
    /// A message that was pushed and has not left: host_unreachable, link_lost, identity_mismatch, unauthorised, version_mismatch.
    std::function<void(const wire::Envelope&, Bytes, const Error&)> on_return;
    /// Our own session is up; it is over, or could not be had.
    std::function<void(const Link&)> on_up;
    std::function<void(const Link&, const Error&)> on_down;
    /// Something was put into the outbox of that inbound peer.
    std::function<void(Peer&)> on_touched;
  };

  Link(Reactor& reactor, zmq::context_t& context, Resolver& resolver, HostAddr host, Options options, Events events);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  const HostAddr& host() const noexcept { return host_; }
  std::uint64_t key() const noexcept { return key_; }
  /// Of the other broker, as far as our own session knows; 0 before.
  std::uint64_t incarnation() const noexcept { return incarnation_; }

  /// Nothing is there that would be lost with it: no connection either way, none being made, no message.
  bool is_idle() const noexcept { return !has_own() && inbound_ == nullptr && pending_.empty(); }
  /// When it last had something to do.
  Reactor::Time last_used() const noexcept { return last_used_; }

  /// Queues a message; it leaves at the end of the turn, or once connected. False when the queue is full; `apart` is not moved from then.
  bool push(const wire::Envelope& envelope, Bytes body, zmq::message_t* apart);
  /// The other broker has opened a session to us.
  void attach(Peer& inbound);
  /// That session is over; what waits in its outbox is the caller's.
  void detach(const Peer& inbound);
  /// Messages that our own sessions have handed to their sockets, and those that are still here.
  std::uint64_t delivered() const noexcept;
  std::size_t held() const noexcept;
  /// Ends our own session in order. What has not left is returned.
  void close(const std::string& reason);

 private:
  enum class Way { none, own, inbound };
  bool has_own() const noexcept { return session_ != nullptr || is_resolving_; }
  void choose();
  void open();
  void resolve();
  void try_next_endpoint();
  void open_session(const std::string& endpoint);
  void on_welcome(const wire::Welcome& welcome);
  void on_lost(const std::string& reason);
  void on_connect_limit();
  /// Our own session, and what was to take it, is over.
  void end_own(const Error& error);
  /// Destroys the session in a later turn, because it may be calling us.
  void retire_session();
  /// How many these were.
  std::uint64_t return_all(Outbox& outbox, const Error& error);

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
  bool is_resolving_ = false;
  /// What is to take our own session once it is up and the other broker has proven to be the right one.
  Outbox pending_;
  std::vector<std::string> endpoints_;
  std::size_t next_endpoint_ = 0;
  Reactor::TimerId limit_timer_ = 0;
  Reactor::TimerId slice_timer_ = 0;
  Reactor::Time last_used_;
  std::uint64_t incarnation_ = 0;
  /// Messages that our own sessions were given, less those that came back from them.
  std::uint64_t pushed_ = 0;
  /// Lets posted work see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
