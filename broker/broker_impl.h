#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <zmq.hpp>

#include "broker/access/admission.h"
#include "broker/access/key_ring.h"
#include "broker/access/rate_limit.h"
#include "broker/access/recent_set.h"
#include "broker/access/strangers.h"
#include "broker/access/zap.h"
#include "broker/broker.h"
#include "broker/observe/monitor.h"
#include "broker/observe/tap.h"
#include "broker/peers/peer.h"
#include "broker/peers/watch_list.h"
#include "broker/router/forwarder.h"
#include "broker/router/route_table.h"
#include "broker/transport/listener.h"
#include "common/base/log.h"
#include "common/security/join_token.h"
#include "common/wire/dispatcher.h"
#include "wire/forward.h"

namespace meshbus {

/// Connections that were refused are ignored as long as they are remembered.
inline constexpr std::size_t kRefusedRemembered = 32768;

/// How much waits for one peer, or for one other host: a link carries what many peers send.
Outbox::Limits queue_limits(const Config& config, bool is_link);

/// Registers peers and answers what is for the broker itself; messages between peers are the
/// Forwarder's.
class Broker::Impl {
 public:
  Impl(Reactor& reactor, BrokerOptions options);
  ~Impl();
  Result<void> start(zmq::context_t& context);
  void stop(const std::string& reason);
  std::size_t held() const;
  Counters counters() const;

  BrokerOptions options;
  std::uint64_t incarnation;
  /// Longer than the listener, whose connections it judges; null without keys.
  std::unique_ptr<Zap> zap;
  std::unique_ptr<Listener> listener;
  std::optional<HostAddr> host;
  std::unordered_map<ConnectionId, std::unique_ptr<Peer>> connections;
  std::size_t ended = 0;
  std::uint64_t bad_handshakes = 0;

 private:
  /// The connection that is saying Hello while the dispatcher runs.
  struct Stranger {
    ConnectionId connection;
    int descriptor;
    Credentials credentials;
    Peer* registered = nullptr;
  };

  void on_frame(ConnectionId from, std::vector<zmq::message_t>& parts);
  void on_stranger(ConnectionId from, std::vector<zmq::message_t>& parts);
  void on_peer_frame(Peer& peer, FrameReader& reader);
  /// Whether the messages of a link's frame are new.
  bool take_link_frame(Peer& peer, FrameReader& reader);
  /// True when the message is kept, on the peer's account.
  bool on_peer_message(Peer& peer, FrameReader::Message& message);
  /// Why this may not be sent on: an observer's data, or more requests than somebody who is no
  /// operator may make.
  std::optional<Error> objection(Peer& peer, const wire::Envelope& envelope);
  void give_back(Peer& peer, const wire::Envelope& envelope, const Error& error);
  void on_released(ConnectionId connection, std::size_t bytes);
  void on_link_message(std::uint64_t host_key, std::uint64_t host_incarnation,
                       FrameReader::Message message);
  void on_own(const wire::Envelope& envelope, Bytes body);

  void on_hello(const Request& request, const wire::Hello& hello);
  void on_bye(const Request& request, const wire::Bye& bye);
  void on_introduce(const Request& request, const wire::Introduce& introduce);
  /// Answers with that error, and logs it once per peer.
  void refuse_introduction(const Request& request, const HostAddr& other, const Error& error);
  void on_watch(const Request& request, const wire::Watch& watch);

  void register_peer(Identity identity);
  void welcome(Peer& peer);
  /// Tells it why, and hangs up a moment later unless it does.
  void refuse_stranger(const Stranger& stranger, const Error& error);
  /// To a connection that is not, or no longer, a peer's. Not counted.
  void send_at_once(ConnectionId connection, const std::string& body);
  void on_accepted(int descriptor);
  void on_disconnected(int descriptor);
  void on_ended(ConnectionId connection, int descriptor, const std::string& why);
  void on_hang_up_timer();
  /// Stops sending to it and returns what waits for it. Its last messages are still taken for a
  /// while, and its watchers told after these. `is_last`: a link's broker ends too.
  void end_peer(Peer& peer, const std::string& reason, bool is_last = false);
  void tell_watchers_later(const Identity& identity, Reactor::Time since,
                           const std::string& reason);
  void tell_watchers(const Identity& identity, const std::string& reason);
  void destroy_later(ConnectionId connection);
  void tell_gone(const WatchList::Watcher& watcher, const std::string& proc, std::uint64_t life,
                 const std::string& reason);
  template <typename NativeBody>
  void answer(const Request& request, NativeBody body);
  void refuse(const Request& request, const Error& error);
  void on_heartbeat_timer();
  /// The address that names our own key.
  std::optional<HostAddr> own_tcp() const;
  /// The key for connections over tcp; nothing when they are not to have any, or there will be
  /// none.
  Result<std::optional<KeyPair>> open_keys(zmq::context_t& context);
  /// Whether the holder of that key may connect.
  std::optional<bool> judge(std::string_view key, std::string_view address, bool may_wait);
  Credentials credentials_of(const Listener::Origin& origin) const;
  void on_keys_timer();
  /// Reads what has changed, and cuts off whose key is not what it was.
  void look_for_keys();
  void look_for_own_key();
  void look_for_tokens();
  /// Of one who has proven to have a token, and is nobody else; or null.
  const TokenRecord* token_of(const Credentials& credentials) const;
  /// The only thing that a token is good for.
  void on_joining(const TokenRecord& token, const wire::Hello& hello);
  /// What the new host is to know. Errors: unauthorised (used, expired), identity_mismatch,
  /// configuration_error, io_error, ...
  Result<std::string> take_token(const TokenRecord& token, const wire::Hello& hello);
  /// Uses the token up and lets its host be known; without a path it is already.
  Result<void> let_host_in(const TokenRecord& token, const std::string& key,
                           const std::string& path);
  Result<void> open_monitor(zmq::context_t& context);
  Result<void> open_tap(zmq::context_t& context);
  /// The text of the key of a peer or host, or nothing.
  std::string name_of(std::uint64_t key);
  wire::BrokerCountersT counters_event() const;
  /// Of peers that have taken nothing for so long of what waits for them; most bytes first.
  std::vector<wire::QueueStateT> queues(std::chrono::milliseconds waits) const;

  Reactor& reactor_;
  Dispatcher handlers_;
  RouteTable routes_;
  WatchList watches_;
  /// Null unless asked for. They outlive the forwarder, which tells them things.
  std::unique_ptr<Monitor> monitor_;
  std::unique_ptr<Tap> tap_;
  std::unique_ptr<Forwarder> forwarder_;
  std::optional<Admission> admission_;
  std::unordered_map<int, ConnectionId> descriptors_;
  /// Descriptors of connections that ended and were not registered. As few as there are
  /// descriptors.
  std::unordered_set<int> unknown_ends_;
  RecentSet<ConnectionId, char> refused_{kRefusedRemembered};
  Strangers strangers_;
  Reactor::TimerId hang_up_timer_ = 0;
  RateLimit requests_;
  /// Who may connect by key; nothing when there are no connections with keys.
  std::optional<KeyRing> ring_;
  /// Tokens of new hosts, by their keys: used and expired ones too.
  std::unordered_map<std::string, TokenRecord> tokens_;
  std::string own_key_;
  std::string own_key_problem_;
  /// When to look again at the earliest.
  Reactor::Time look_due_{};
  Reactor::TimerId keys_timer_ = 0;
  Reactor::TimerId strangers_timer_ = 0;
  /// Whose refusal has been told.
  RecentSet<std::string, char> refused_keys_{kRefusedRemembered};
  Stranger* stranger_ = nullptr;
  /// Whose frame is being read.
  Peer* speaker_ = nullptr;
  std::uint64_t turn_end_ = 0;
  std::chrono::milliseconds heartbeat_;
  Reactor::TimerId heartbeat_timer_ = 0;
  const std::string heartbeat_body_ = encode_control({}, wire::HeartbeatT());
  log::Limited limited_log_{10};
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
