#include "tests/support/socket_monitor.h"

#include <atomic>
#include <cstring>
#include <string>

namespace meshbus {

SocketMonitor::SocketMonitor(zmq::context_t& context, zmq::socket_t& socket, int events)
    : socket_(socket), pair_(context, zmq::socket_type::pair) {
  static std::atomic<unsigned> counter{0};
  const std::string endpoint = "inproc://meshbus-monitor-" + std::to_string(counter++);
  if (zmq_socket_monitor(socket_.handle(), endpoint.c_str(), events) != 0) throw zmq::error_t();
  pair_.set(zmq::sockopt::linger, 0);
  pair_.set(zmq::sockopt::rcvhwm, 0);  // an event that does not fit would be lost
  pair_.connect(endpoint);
}

SocketMonitor::~SocketMonitor() {
  zmq_socket_monitor(socket_.handle(), nullptr, 0);
}

std::optional<SocketMonitor::Event> SocketMonitor::next() {
  zmq::message_t head;
  if (!pair_.recv(head, zmq::recv_flags::dontwait)) return std::nullopt;
  Event event{};
  if (head.size() >= 6) {
    std::memcpy(&event.id, head.data(), sizeof event.id);
    std::memcpy(&event.value, static_cast<const char*>(head.data()) + sizeof event.id,
                sizeof event.value);
  }
  // The address, which nobody needs here.
  zmq::message_t address;
  while (pair_.get(zmq::sockopt::rcvmore)) {
    if (!pair_.recv(address, zmq::recv_flags::dontwait)) break;
  }
  return event;
}

}  // namespace meshbus
