// Proof that the tests under ThreadSanitizer see a race of ours, libzmq's suppression
// notwithstanding: what a reactor's thread counts is read by another thread; `race` reads it
// directly, as our own code must never do, `posted` asks the reactor. tests/tsan/prove expects a
// report of the first and none of the second.
#include <cstdio>
#include <cstring>
#include <future>
#include <thread>

#include <zmq.hpp>

#include "common/loop/reactor.h"
#include "common/loop/zmq_watch.h"

namespace {

constexpr int kMessages = 10;

/// Lives on the reactor's thread.
class Counter {
 public:
  Counter(zmq::context_t& context, meshbus::Reactor& reactor)
      : socket_(context, zmq::socket_type::pull), reactor_(reactor) {
    socket_.bind("inproc://counter");
    watch_zmq(reactor_, socket_.handle(), [this] { return on_messages(); });
  }
  ~Counter() { reactor_.forget_socket(socket_.handle()); }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;
  int count() const { return count_; }

 private:
  bool on_messages() {
    zmq::message_t message;
    while (socket_.recv(message, zmq::recv_flags::dontwait)) ++count_;
    return false;
  }
  zmq::socket_t socket_;
  meshbus::Reactor& reactor_;
  int count_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const bool is_race = argc > 1 && std::strcmp(argv[1], "race") == 0;
  zmq::context_t context;
  meshbus::Reactor reactor;
  Counter counter(context, reactor);
  std::thread thread([&reactor] { reactor.run(); });
  zmq::socket_t sender(context, zmq::socket_type::push);
  sender.connect("inproc://counter");
  for (int i = 0; i < kMessages; ++i) sender.send(zmq::message_t("x", 1), zmq::send_flags::none);
  int seen = 0;
  while (seen < kMessages) {
    if (is_race) {
      seen = counter.count();
    } else {
      std::promise<int> answer;
      reactor.post([&] { answer.set_value(counter.count()); });
      seen = answer.get_future().get();
    }
  }
  reactor.stop();
  thread.join();
  std::printf("%d messages counted\n", seen);
  return 0;
}
