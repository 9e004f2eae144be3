// The floor under a broker's round trip: one ROUTER that hands each message of one connection to the other, and does nothing else.
// Usage: meshbus-floor-relay ENDPOINT. Prints "ready"; ends when stdin ends.
#include <poll.h>

#include <cstdio>
#include <string>

#include <zmq.hpp>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: meshbus-floor-relay ENDPOINT\n");
    return 64;
  }
  zmq::context_t context(1);
  zmq::socket_t router(context, zmq::socket_type::router);
  router.set(zmq::sockopt::linger, 0);
  router.bind(argv[1]);
  std::printf("ready\n");
  std::fflush(stdout);

  std::string first, second;
  for (;;) {
    zmq_pollitem_t items[] = {{router.handle(), 0, ZMQ_POLLIN, 0}, {nullptr, 0, ZMQ_POLLIN, 0}};
    if (zmq_poll(items, 2, -1) < 0) continue;
    if (items[1].revents != 0) return 0;
    zmq::message_t id, body;
    while (router.recv(id, zmq::recv_flags::dontwait)) {
      if (!router.recv(body)) return 1;
      const std::string from = id.to_string();
      if (first.empty() || from == first) {
        first = from;
      } else {
        second = from;
      }
      const std::string& to = from == first ? second : first;
      if (to.empty()) continue;  // the other one has not spoken yet
      router.send(zmq::buffer(to), zmq::send_flags::sndmore);
      router.send(body, zmq::send_flags::none);
    }
  }
}
