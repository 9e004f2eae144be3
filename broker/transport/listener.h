#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "broker/peers/peer.h"
#include "broker/transport/local_router.h"
#include "broker/transport/unix_socket.h"
#include "common/loop/reactor.h"
#include "common/security/keys.h"
#include "common/wire/frame.h"
#include "common/zmtp/socket_monitor.h"
#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus {

/// The broker's ROUTER: binds, takes frames in bounded portions, sends frames, and tells when a
/// connection ends. It knows connections and nothing of who they are. Tcp is libzmq's, with its
/// thread; unix sockets are read and written here (LocalRouter). Lives on the reactor's thread.
class Listener {
 public:
  struct Events {
    /// A frame came. `parts` has at least one part, without the routing id, and may be moved from.
    std::function<void(ConnectionId, std::vector<zmq::message_t>& parts)> on_frame;
    /// A connection over tcp ended that had this descriptor (Origin). What it had sent before may
    /// still come for a moment.
    std::function<void(int descriptor)> on_disconnected;
    /// A connection over a unix socket ended, after all that it had sent; why, for people.
    std::function<void(ConnectionId, int descriptor, const std::string& why)> on_ended;
    /// A connection came that has this descriptor. Over tcp what it sends may come before that;
    /// drain_monitor() sees to the order.
    std::function<void(int descriptor)> on_accepted;
    /// There is room again after Sent::full, over a unix socket; with tcp nothing tells.
    std::function<void(ConnectionId)> on_writable;
    /// A connection had no keys, did not know ours, or spoke something else: in words.
    std::function<void(const std::string& what)> on_bad_handshake;
  };
  enum class Sent {
    yes,
    /// Its socket is full; nothing was sent, try again later.
    full,
    /// There is no such connection any more; nothing was sent.
    gone,
  };
  /// What is known of the other end of a connection.
  struct Origin {
    /// Of the broker's end; -1 when unknown.
    int descriptor = -1;
    /// Over a unix socket: the process that connected.
    std::optional<UnixPeer> process = {};
    /// Over tcp: its address.
    std::string address = {};
    /// Over tcp with keys, what Zap answered. Without keys the other end may have written it
    /// itself.
    std::string user = {};
  };

  struct Limits {
    /// A connection over tcp ends when its other end has not answered for so long.
    std::chrono::milliseconds silence;
    /// A connection over tcp ends when its handshake takes longer.
    std::chrono::milliseconds handshake;
  };

  /// Binds all of them, tcp with these keys, if any: then a Zap must be there. Unix sockets are
  /// made with mode 0700. Errors: io_error, configuration_error, naming the address.
  static Result<std::unique_ptr<Listener>> open(Reactor& reactor, zmq::context_t& context,
                                                const std::vector<HostAddr>& binds, Limits limits,
                                                std::optional<KeyPair> keys, Events events);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// What is served, in the order of `binds`, concrete: with the ports and paths that the kernel or
  /// libzmq chose.
  const std::vector<HostAddr>& addresses() const noexcept { return addresses_; }
  /// Sends the parts of the frame, which are moved from when it returns `yes`.
  Sent send(ConnectionId to, Frame& frame);
  /// Connections over tcp have these keys from now on. libzmq ends those that are there; for a
  /// moment nobody can connect.
  void change_keys(KeyPair keys);
  /// Hands out all disconnections that are known by now. To be called before a new connection's
  /// descriptor is remembered: the kernel gives descriptors out again.
  void drain_monitor();
  /// The same for the last that it is to hear: over a unix socket behind whatever is left to leave,
  /// however much that is.
  void send_behind(ConnectionId to, Frame& frame);
  /// Over a unix socket.
  static bool is_local(ConnectionId id) noexcept { return LocalRouter::is_local(id); }
  /// Whether the last portion of tcp was all there was.
  bool is_drained() const noexcept { return is_drained_; }
  /// Messages that were no frames by their form: from a connection that chose its own name, or of
  /// too many or too large parts.
  std::uint64_t unusable() const noexcept { return unusable_; }
  /// Gives what was sent so long to leave when this object ends, and from now on sends behind what
  /// is left. 0 at the start.
  void set_linger(std::chrono::milliseconds linger);

  /// Of the connection that this part came by: Origin::descriptor.
  int descriptor_of(ConnectionId from, zmq::message_t& part) const;
  Origin origin_of(ConnectionId from, zmq::message_t& part) const;

 private:
  Listener(Reactor& reactor, zmq::context_t& context, Limits limits, std::optional<KeyPair> keys,
           Events events);
  Result<void> bind_all(const std::vector<HostAddr>& binds);
  Result<void> bind(const HostAddr& address);
  Result<void> bind_unix(const HostAddr& address);
  Result<void> bind_tcp(const HostAddr& address);
  Result<void> bind_endpoint(const HostAddr& address, const std::string& endpoint);
  LocalRouter::Events local_events();
  void set_keys();
  void bind_again(const HostAddr& address, int attempts);
  bool on_readable();
  /// The next whole message into parts_; false when there is none now.
  bool receive(ConnectionId& from, std::size_t& bytes, bool& is_usable);

  Reactor& reactor_;
  Limits limits_;
  std::optional<KeyPair> keys_;
  Events events_;
  LocalRouter local_;
  /// Tcp.
  zmq::socket_t router_;
  std::unique_ptr<SocketMonitor> monitor_;
  std::vector<HostAddr> addresses_;
  std::vector<PrivateFolder> folders_;
  std::vector<SocketFile> files_;
  std::vector<zmq::message_t> parts_;
  bool is_drained_ = true;
  std::uint64_t unusable_ = 0;
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
