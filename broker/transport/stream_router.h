#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "broker/access/key_verdict.h"
#include "broker/peers/peer.h"
#include "broker/transport/acceptor.h"
#include "broker/transport/handshake_pool.h"
#include "broker/transport/handshake_turns.h"
#include "broker/transport/key_shares.h"
#include "broker/transport/read_shares.h"
#include "common/base/message_part.h"
#include "common/base/unix_peer.h"
#include "common/loop/reactor.h"
#include "common/zmtp/curve_key.h"
#include "common/zmtp/silence_watch.h"
#include "common/zmtp/zmtp_stream.h"

namespace meshbus {

/// What a ROUTER of ZeroMQ is to the DEALERs that connect to it, over unix sockets and tcp, on the
/// reactor's own thread (docs/decisions/0027, 0031): reads messages in bounded portions, each
/// connection's in turn, writes frames, and tells when a connection ends. It does not
/// know what they are.
/// Large because: connections of both kinds are read, judged and ended in one place; what is
/// decided about them is in HandshakePool, HandshakeTurns, KeyShares, ReadShares and SilenceWatch.
class StreamRouter {
 public:
  struct Events {
    /// A message came: at least one part, which may be moved from.
    std::function<void(ConnectionId, std::vector<MessagePart>& parts)> on_message;
    std::function<void(ConnectionId, int descriptor)> on_accepted;
    /// It has ended, after everything that it had sent; the descriptor is closed right after.
    std::function<void(ConnectionId, const ZmtpStream&)> on_ended;
    /// It takes frames again, after send() said `full`.
    std::function<void(ConnectionId)> on_writable;
    /// Whether the holder of that key (Z85) may come in from that address. Nothing, if `may_wait`:
    /// the connection waits for ask_again(). Asked of tcp with keys only.
    std::function<std::optional<KeyVerdict>(std::string_view key, std::string_view address,
                                            bool may_wait)>
        judge;
  };
  enum class Sent { yes, full, gone };
  /// They hold for connections over tcp.
  struct Limits {
    /// It ends when its other end has given no sign for so long.
    std::chrono::milliseconds silence{15000};
    /// It ends when its handshake takes longer.
    std::chrono::milliseconds handshake{10000};
    /// It ends when a message that has begun takes longer.
    std::chrono::milliseconds message{30000};
    HandshakePool::Limits pool{.all = 256, .per_network = 64};
    /// All of them together: descriptors for local peers stay free.
    std::size_t connections = SIZE_MAX;
    /// Each key that is not trusted.
    KeyShares::Limits key = {};
    ConnectionGate::Limits gate = {};
  };
  StreamRouter(Reactor& reactor, Limits limits, Events events);
  /// Waits for what was sent to leave, for as long as set_linger() says.
  ~StreamRouter();
  StreamRouter(const StreamRouter&) = delete;
  StreamRouter& operator=(const StreamRouter&) = delete;

  /// Listens at that path, or abstract name; the file gets the mask of the process. `kept`: a
  /// socket that is bound there already; empty: none. Throws std::system_error.
  void listen(const std::string& path, UniqueFd kept = {}) {
    acceptor_.listen(path, std::move(kept));
  }
  /// Returns where it listens. Throws std::system_error.
  TcpAddress listen(const TcpAddress& address, UniqueFd kept = {}) {
    return acceptor_.listen(address, std::move(kept));
  }
  /// The listening sockets; they stay ours.
  std::vector<int> listeners() const { return acceptor_.listeners(); }
  /// Connections over tcp that come from now on have this key; nothing: they have none.
  void set_keys(std::optional<CurveKeyPair> keys) { keys_ = std::move(keys); }
  /// Ends all connections over tcp.
  void end_tcp(const std::string& why);
  /// Judges the connections that wait.
  void ask_again();

  static bool is_local(ConnectionId id) noexcept { return id < kTcp; }
  /// `full`: something is left of an earlier one. Not once it lingers.
  Sent send(ConnectionId to, Frame& frame);
  /// Behind whatever is left, if there is such a connection.
  void send_behind(ConnectionId to, Frame& frame);
  /// -1 when there is no such connection.
  int descriptor_of(ConnectionId id) const;
  /// The process that connected, when it did; of a unix socket.
  std::optional<UnixPeer> process_of(ConnectionId id) const;
  /// Where a connection over tcp comes from; empty: none such.
  std::string address_of(ConnectionId id) const;
  /// The key (Z85) that the other end of a connection over tcp has proven to have; empty: none.
  std::string key_of(ConnectionId id) const;
  void set_linger(std::chrono::milliseconds linger) noexcept { linger_ = linger; }
  /// Connections over tcp that were closed to make room for others.
  std::uint64_t crowded_out() const noexcept { return crowded_out_; }

 private:
  /// Numbers of connections over tcp begin here.
  static constexpr ConnectionId kTcp = ConnectionId{1} << 62;

  /// What is known of a connection over tcp besides.
  struct Remote {
    std::string address;
    SilenceWatch silence;
    /// Messages that had come whole, and when that was last another number, or none was begun.
    std::uint64_t messages = 0;
    Reactor::Time message_since;
    /// When it came.
    Reactor::Time came;
    /// Its key has a share of its own.
    bool is_bounded = false;
  };
  struct Connection {
    ZmtpStream stream;
    std::uint32_t watched = 0;
    std::optional<Remote> remote = std::nullopt;
  };

  void on_connection(UniqueFd fd, const std::optional<TcpAddress>& from);
  /// For one more connection over tcp, when there are as many as there may be. False: there is
  /// none.
  bool make_room();
  void crowd_out(ConnectionId id);
  /// For the messages with that key that do not end. False: it was this connection that went.
  bool stays_in_share(ConnectionId id, const Connection& connection);
  std::unique_ptr<Connection> make_connection(UniqueFd fd, bool is_tcp);
  void watch(ConnectionId id, Connection& connection, std::uint32_t events);
  void watch_writing(ConnectionId id, Connection& connection);
  void on_event(ConnectionId id, std::uint32_t events);
  void read(ConnectionId id, Connection& connection);
  /// Hands out what was read. Bytes that its messages count for besides their own.
  std::size_t hand_out(ConnectionId id, Connection& connection);
  /// Reads from a connection with keys that has not authenticated if it is its turn.
  void read_in_turn(ConnectionId id, Connection& connection);
  void read_handshake(ConnectionId id, Connection& connection);
  void go_on_with_handshakes();
  void ask(ConnectionId id, Connection& connection, bool may_wait);
  void end(ConnectionId id);
  void look_at_tcp();
  void look_at(ConnectionId id, Connection& connection, Reactor::Time now);
  void linger();

  Reactor& reactor_;
  Limits limits_;
  Events events_;
  std::optional<CurveKeyPair> keys_;
  Acceptor acceptor_;
  std::unordered_map<ConnectionId, std::unique_ptr<Connection>> connections_;
  std::unordered_map<ConnectionId, Connection*> tcp_;
  ConnectionId next_ = 1;
  HandshakePool pool_;
  HandshakeTurns turns_;
  KeyShares key_shares_;
  Reactor::TimerId turns_timer_ = 0;
  /// They have proven a key of which nothing is known yet.
  std::vector<ConnectionId> asking_;
  Reactor::TimerId look_timer_ = 0;
  Reactor::Time look_due_{};
  std::uint64_t crowded_out_ = 0;
  ZmtpStream::Buffer buffer_;
  std::vector<MessagePart> parts_;
  std::uint64_t turn_end_ = 0;
  log::Limited limited_log_{10};
  ReadShares shares_;
  std::chrono::milliseconds linger_{0};
};

}  // namespace meshbus
