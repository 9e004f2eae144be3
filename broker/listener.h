#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "broker/peer.h"
#include "broker/unix_socket.h"
#include "common/frame.h"
#include "common/keys.h"
#include "common/reactor.h"
#include "common/socket_monitor.h"
#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus {

/// The broker's one ROUTER socket: binds, takes frames in bounded portions, sends frames, and tells when a connection ends. It knows
/// connections and nothing of who they are. Lives on the reactor's thread.
class Listener {
 public:
  struct Events {
    /// A frame came. `parts` has at least one part, without the routing id, and may be moved from.
    std::function<void(ConnectionId, std::vector<zmq::message_t>& parts)> on_frame;
    /// A connection ended that had this descriptor (descriptor_of() its frames). What it had sent before may still come for a moment.
    std::function<void(int descriptor)> on_disconnected;
    /// A connection came that has this descriptor. What it sends may come before that; drain_monitor() sees to the order.
    std::function<void(int descriptor)> on_accepted;
    /// A connection over tcp had no keys, did not know ours, or spoke something else: in words.
    std::function<void(const std::string& what)> on_bad_handshake;
  };
  enum class Sent {
    yes,
    /// Its queue in libzmq is full; nothing was sent, try again later.
    full,
    /// There is no such connection any more; nothing was sent.
    gone,
  };

  struct Limits {
    /// A connection over tcp ends when its other end has not answered for so long.
    std::chrono::milliseconds silence;
    /// A connection ends when its handshake takes longer.
    std::chrono::milliseconds handshake;
  };

  /// Binds all of them, tcp with these keys, if any: then a Zap must be there. Unix sockets are made with mode 0700. Errors: io_error,
  /// configuration_error, naming the address.
  static Result<std::unique_ptr<Listener>> open(Reactor& reactor, zmq::context_t& context, const std::vector<HostAddr>& binds,
                                                Limits limits, std::optional<KeyPair> keys, Events events);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// What is served, in the order of `binds`, concrete: with the ports and paths that the kernel or libzmq chose.
  const std::vector<HostAddr>& addresses() const noexcept { return addresses_; }
  /// Sends the parts of the frame, which are moved from when it returns `yes`.
  Sent send(ConnectionId to, Frame& frame);
  /// Connections over tcp have these keys from now on. libzmq ends those that are there; for a moment nobody can connect.
  void change_keys(KeyPair keys);
  /// Hands out all disconnections that are known by now. To be called before a new connection's descriptor is remembered: the kernel gives
  /// descriptors out again.
  void drain_monitor();
  /// Whether the last portion was all there was.
  bool is_drained() const noexcept { return is_drained_; }
  /// Messages that were no frames by their form: from a connection that chose its own name, or of too many parts.
  std::uint64_t unusable() const noexcept { return unusable_; }
  /// Gives what was sent so long to leave when this object ends. 0 at the start.
  void set_linger(std::chrono::milliseconds linger);

  /// The broker's descriptor of the connection that this part came by, -1 when unknown.
  static int descriptor_of(zmq::message_t& part);
  /// The ZMQ property Peer-Address: see Credentials.
  static std::string peer_address_of(zmq::message_t& part);
  /// The ZMQ property User-Id: of a connection with keys, what Zap answered. Others may have written it themselves.
  static std::string user_of(zmq::message_t& part);

 private:
  Listener(Reactor& reactor, zmq::context_t& context, Limits limits, std::optional<KeyPair> keys, Events events);
  Result<void> bind_all(const std::vector<HostAddr>& binds);
  Result<void> bind(const HostAddr& address);
  Result<void> bind_endpoint(const HostAddr& address, const std::string& endpoint);
  void set_keys();
  void bind_again(const HostAddr& address, int attempts);
  bool on_readable();
  /// The next whole message into parts_; false when there is none now.
  bool receive(ConnectionId& from, std::size_t& bytes, bool& is_usable);

  Reactor& reactor_;
  Limits limits_;
  std::optional<KeyPair> keys_;
  Events events_;
  zmq::socket_t router_;
  std::unique_ptr<SocketMonitor> monitor_;
  std::vector<HostAddr> addresses_;
  std::vector<SocketFile> files_;
  std::vector<zmq::message_t> parts_;
  bool is_drained_ = true;
  std::uint64_t unusable_ = 0;
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
