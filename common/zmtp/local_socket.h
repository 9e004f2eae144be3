#pragma once

#include "common/zmtp/broker_socket.h"
#include "common/zmtp/zmtp_stream.h"

namespace meshbus {

/// A connection to a unix socket that speaks ZMTP (ZmtpStream, as a DEALER) on the reactor's own
/// thread. libzmq would have a thread of its own read and write, and wake this one: a message then
/// costs three sleeps instead of one (docs/decisions/0023).
class LocalSocket : public BrokerSocket {
 public:
  /// Throws std::system_error when nobody listens there, or is not ready for more;
  /// UntrustedListener when another user does.
  LocalSocket(Reactor& reactor, const std::string& endpoint, Events events);
  /// Blocks while it lingers and the other side does not take what is left.
  ~LocalSocket() override;

  bool receive(std::vector<zmq::message_t>& parts) override;
  bool send(Frame& frame) override;
  void read_again() override { reactor_.call_again(this); }
  /// From now on; send() waits as well then.
  void set_linger(std::chrono::milliseconds linger) override;

 private:
  void watch(bool for_writing);
  bool on_event();
  /// Takes what the other side says before messages come. False: not all of it is there yet, or it
  /// is nothing that we can speak to.
  bool shake_hands();
  /// True when nothing is left; waits for that while it lingers.
  bool write_on();
  void tell_if_ended();

  /// What handlers need while they run, as they may destroy this.
  struct Handlers {
    Events on;
    bool is_gone = false;
  };

  Reactor& reactor_;
  std::shared_ptr<Handlers> handlers_;
  std::unique_ptr<ZmtpStream::Buffer> buffer_;
  ZmtpStream stream_;
  Reactor::Time lingers_until_{};
  bool is_open_ = false;
  bool watches_writing_ = false;
};

}  // namespace meshbus
