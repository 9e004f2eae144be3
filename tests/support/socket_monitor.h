#pragma once

#include <cstdint>
#include <optional>

#include <zmq.hpp>

namespace meshbus {

/// The events of one ZeroMQ socket's connections (ZMQ_EVENT_*). Lives on the reactor thread; watch
/// `handle()` as a socket.
class SocketMonitor {
 public:
  struct Event {
    std::uint16_t id;
    /// A descriptor or an errno, by event.
    std::int32_t value;
  };
  /// Starts it, before `socket` is bound or connected, so that no event is missed.
  SocketMonitor(zmq::context_t& context, zmq::socket_t& socket, int events);
  /// Stops it; destroy before the socket.
  ~SocketMonitor();
  SocketMonitor(const SocketMonitor&) = delete;
  SocketMonitor& operator=(const SocketMonitor&) = delete;

  void* handle() { return pair_.handle(); }
  /// The next event, or nothing now.
  std::optional<Event> next();

 private:
  zmq::socket_t& socket_;
  zmq::socket_t pair_;
};

}  // namespace meshbus
