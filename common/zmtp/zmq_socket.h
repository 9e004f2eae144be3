#pragma once

#include "common/zmtp/broker_socket.h"
#include "common/zmtp/socket_monitor.h"

namespace meshbus {

/// A DEALER of libzmq that is one connection: over tcp, with or without keys.
class ZmqSocket : public BrokerSocket {
 public:
  ZmqSocket(Reactor& reactor, zmq::context_t& context, const Options& options, Events events);
  ~ZmqSocket() override;

  bool receive(std::vector<zmq::message_t>& parts) override;
  bool send(Frame& frame) override;
  void read_again() override { reactor_.call_again(socket_.handle()); }
  /// Whoever then destroys the zmq context waits for it.
  void set_linger(std::chrono::milliseconds linger) override;

 private:
  void set_keys(const Keys& keys);
  bool on_monitor();
  void on_event(const SocketMonitor::Event& event);

  Reactor& reactor_;
  Events events_;
  zmq::socket_t socket_;
  std::unique_ptr<SocketMonitor> monitor_;
  bool is_open_ = false;
  Reactor::TimerId writable_timer_ = 0;
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
