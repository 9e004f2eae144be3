#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "broker/peers/peer.h"
#include "broker/transport/kept_listeners.h"
#include "broker/transport/stream_router.h"
#include "broker/transport/unix_socket.h"
#include "common/base/log.h"
#include "common/base/message_part.h"
#include "common/loop/reactor.h"
#include "common/security/keys.h"
#include "common/wire/frame.h"
#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus {

/// The broker's end of all connections: binds, takes frames in bounded portions, sends frames, and
/// tells when a connection ends. It knows connections, but no names of peers. Lives on the
/// reactor's thread.
class Listener {
 public:
  struct Events {
    /// A frame came. `parts` has at least one part and may be moved from.
    std::function<void(ConnectionId, std::vector<MessagePart>& parts)> on_frame;
    /// A connection ended, after all that it had sent; why, for people.
    std::function<void(ConnectionId, int descriptor, const std::string& why)> on_ended;
    /// A connection came that has this descriptor.
    std::function<void(int descriptor)> on_accepted;
    /// There is room again after Sent::full.
    std::function<void(ConnectionId)> on_writable;
    /// A connection had no keys, did not know ours, or spoke something else: in words.
    std::function<void(const std::string& what)> on_bad_handshake;
    /// Whether the holder of that key (Z85) may come in from that address. Nothing, if `may_wait`:
    /// the connection waits for ask_again(). Needed with keys only.
    std::function<std::optional<KeyVerdict>(std::string_view key, std::string_view address,
                                            bool may_wait)>
        judge;
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
    /// The broker's end; -1 when unknown.
    int descriptor = -1;
    /// Over a unix socket: the process that connected.
    std::optional<UnixPeer> process = {};
    /// Over tcp: its address.
    std::string address = {};
    /// Over tcp with keys, the key (Z85) that the other end has proven to have.
    std::string user = {};
  };

  struct Limits {
    /// A connection over tcp ends when its other end has given no sign for so long.
    std::chrono::milliseconds silence;
    /// A connection over tcp ends when its handshake takes longer.
    std::chrono::milliseconds handshake;
    /// A connection over tcp ends when a message that it has begun takes longer.
    std::chrono::milliseconds message = std::chrono::seconds(30);
    /// Connections over tcp that one network may open each second; 0 = any number.
    std::uint64_t connections_per_second = 0;
    /// Connections over tcp that one key below the role of an operator may have; 0 = a quarter of
    /// all, which is the most in any case.
    std::uint64_t connections_per_key = 0;
  };

  /// Binds all of them, tcp without keys, until set_keys(). Unix sockets are made with mode 0700.
  /// Sockets of `kept` that are bound there already are used instead. Errors: io_error,
  /// configuration_error, naming the address.
  static Result<std::unique_ptr<Listener>> open(Reactor& reactor,
                                                const std::vector<HostAddr>& binds,
                                                KeptListeners& kept, Limits limits, Events events);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Binds a unix socket for every user that reaches its folder; addresses() does not have it.
  /// Errors: as open().
  Result<void> bind_for_procs(const HostAddr& address, KeptListeners& kept);

  /// The addresses that are served, in the order of `binds`, concrete: with the ports and paths
  /// that were chosen.
  const std::vector<HostAddr>& addresses() const noexcept { return addresses_; }
  /// The listening sockets; they stay ours.
  std::vector<int> listeners() const { return router_.listeners(); }
  /// Sends the parts of the frame, which are moved from when it returns `yes`.
  Sent send(ConnectionId to, Frame& frame);
  /// The same for the last that it is to hear: behind whatever is left to leave.
  void send_behind(ConnectionId to, Frame& frame) { router_.send_behind(to, frame); }
  /// Connections over tcp have these keys from now on; those that are there end.
  void set_keys(const KeyPair& keys);
  /// Judges the connections that wait for a judgement of their key.
  void ask_again() { router_.ask_again(); }
  /// Over a unix socket.
  static bool is_local(ConnectionId id) noexcept { return StreamRouter::is_local(id); }
  /// Messages that were no frames by their form: of too many or too large parts, or never ended.
  std::uint64_t unusable() const noexcept { return unusable_; }
  /// Gives what was sent so long to leave when this object ends, and from now on sends behind what
  /// is left. 0 at the start.
  void set_linger(std::chrono::milliseconds linger) noexcept { router_.set_linger(linger); }

  /// Origin::descriptor of an open connection.
  int descriptor_of(ConnectionId from) const { return router_.descriptor_of(from); }
  Origin origin_of(ConnectionId from) const;

 private:
  Listener(Reactor& reactor, Limits limits, Events events);
  Result<void> bind(const HostAddr& address, KeptListeners& kept);
  Result<void> bind_unix(const HostAddr& address, KeptListeners& kept);
  Result<void> bind_tcp(const HostAddr& address, KeptListeners& kept);
  StreamRouter::Events router_events();
  void on_router_ended(ConnectionId id, const ZmtpStream& stream);

  Events events_;
  StreamRouter router_;
  bool has_keys_ = false;
  std::vector<HostAddr> addresses_;
  std::vector<PrivateFolder> folders_;
  std::vector<SocketFile> files_;
  std::uint64_t unusable_ = 0;
  log::Limited limited_log_{10};
};

}  // namespace meshbus
