#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "broker/peers/peer.h"
#include "common/base/log.h"
#include "common/base/unique_fd.h"
#include "common/base/unix_peer.h"
#include "common/loop/reactor.h"
#include "common/zmtp/zmtp_stream.h"
#include "meshbus/result.h"

namespace meshbus {

/// What a ROUTER of ZeroMQ is to the DEALERs that connect to its unix sockets, on the reactor's own
/// thread (docs/decisions/0027): takes connections of users that may connect
/// (common/base/unix_peer.h), reads messages in bounded portions, each connection's in turn, writes
/// frames, and tells when a connection ends. It knows nothing of who they are.
class LocalRouter {
 public:
  struct Events {
    /// A message came: at least one part, which may be moved from.
    std::function<void(ConnectionId, std::vector<zmq::message_t>& parts)> on_message;
    std::function<void(ConnectionId, int descriptor)> on_accepted;
    /// It has ended, after everything that it had sent; the descriptor is closed right after.
    std::function<void(ConnectionId, const ZmtpStream&)> on_ended;
    /// It takes frames again, after send() said `full`.
    std::function<void(ConnectionId)> on_writable;
  };
  enum class Sent { yes, full, gone };
  LocalRouter(Reactor& reactor, Events events);
  /// Waits for what was sent to leave, for as long as set_linger() says.
  ~LocalRouter();
  LocalRouter(const LocalRouter&) = delete;
  LocalRouter& operator=(const LocalRouter&) = delete;

  /// Listens at that path, or abstract name; the file gets the mask of the process. Throws
  /// std::system_error.
  void listen(const std::string& path);
  static bool is_local(ConnectionId id) noexcept { return id >= kFirst; }
  /// `full`: something is left of an earlier one. Not once it lingers.
  Sent send(ConnectionId to, Frame& frame);
  /// Behind whatever is left, if there is such a connection.
  void send_behind(ConnectionId to, Frame& frame);
  /// -1 when there is no such connection.
  int descriptor_of(ConnectionId id) const;
  /// The process that connected, when it did.
  std::optional<UnixPeer> process_of(ConnectionId id) const;
  void set_linger(std::chrono::milliseconds linger) noexcept { linger_ = linger; }

 private:
  /// Numbers that no connection of libzmq's ROUTER has.
  static constexpr ConnectionId kFirst = ConnectionId{1} << 32;

  struct Connection {
    ZmtpStream stream;
    bool watches_writing = false;
  };

  void accept_all(int listener);
  void accept_later(int listener);
  void watch_listener(int listener);
  void watch(ConnectionId id, Connection& connection, bool for_writing);
  void on_event(ConnectionId id, std::uint32_t events);
  void read(ConnectionId id, Connection& connection);
  void end(ConnectionId id);
  void linger();

  Reactor& reactor_;
  Events events_;
  std::vector<UniqueFd> listeners_;
  std::unordered_map<ConnectionId, std::unique_ptr<Connection>> connections_;
  ConnectionId next_ = kFirst;
  ZmtpStream::Buffer buffer_;
  std::vector<zmq::message_t> parts_;
  std::uint64_t turn_end_ = 0;
  log::Limited limited_log_{10};
  /// Connections read from in this turn, and what it has read; what each may be read in it.
  std::size_t read_from_ = 0, read_ = 0;
  std::size_t share_;
  std::chrono::milliseconds linger_{0};
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
