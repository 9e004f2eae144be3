#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/message_part.h"
#include "common/zmtp/broker_socket.h"
#include "common/zmtp/silence_watch.h"
#include "common/zmtp/tcp_connector.h"
#include "common/zmtp/zmtp_stream.h"

namespace meshbus {

/// A connection to a broker, over a unix socket or tcp, on the reactor's own thread (ZmtpStream, as
/// a DEALER). libzmq would have a thread of its own read and write, and wake this one: a message
/// then costs three sleeps instead of one (docs/decisions/0023 and 0031).
class StreamSocket : public BrokerSocket {
 public:
  /// Throws std::system_error when nobody listens at a unix socket, or is not ready for more;
  /// UntrustedListener when another user does. Over tcp on_ended tells.
  StreamSocket(Reactor& reactor, const Options& options, Events events);
  /// Blocks while it lingers and the other side does not take what is left.
  ~StreamSocket() override;

  bool receive(std::vector<MessagePart>& parts) override;
  bool send(Frame& frame) override;
  void read_again() override { reactor_.call_again(this); }
  /// From now on; send() waits as well then.
  void set_linger(std::chrono::milliseconds linger) override;

 private:
  /// What handlers need while they run, as they may destroy this.
  struct Handlers {
    Events on;
    bool is_gone = false;
  };

  void connect_to_unix(const std::string& path);
  void connect_to_tcp(const std::string& endpoint);
  void begin(UniqueFd fd);
  void watch(bool for_writing);
  bool on_event();
  /// Takes what the other side says before messages come. False: not all of it is there yet, or it
  /// is nothing that we can speak to.
  bool shake_hands();
  /// Tells how the handshake failed, if it did.
  void tell_if_refused();
  bool fill();
  /// True when nothing is left; waits for that while it lingers.
  bool write_on();
  void wait_for_arrival();
  void tell_if_ended();
  void end(const std::string& why);
  void look_for_signs();

  Reactor& reactor_;
  std::shared_ptr<Handlers> handlers_;
  std::unique_ptr<ZmtpStream::Buffer> buffer_;
  std::unique_ptr<Mechanism> mechanism_;
  std::unique_ptr<TcpConnector> connector_;
  /// Nothing while it connects over tcp.
  std::optional<ZmtpStream> stream_;
  /// Over tcp only: a peer on this machine may be stopped for a while and is not gone for that.
  std::optional<SilenceWatch> silence_;
  std::chrono::milliseconds time_to_live_{0};
  Reactor::TimerId look_timer_ = 0;
  Reactor::Time lingers_until_{};
  bool is_open_ = false;
  bool watches_writing_ = false;
};

}  // namespace meshbus
