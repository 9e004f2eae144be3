#include "common/reactor.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include <zmq.hpp>

using namespace meshbus;
using namespace std::chrono_literals;

namespace {

struct Pair {
  Pair() {
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    a.reset(fds[0]);
    b.reset(fds[1]);
  }
  void write() const { REQUIRE(::send(a.get(), "x", 1, 0) == 1); }
  void read() const {
    char c = 0;
    REQUIRE(::recv(b.get(), &c, 1, 0) == 1);
  }
  UniqueFd a, b;
};

}  // namespace

TEST_CASE("reactor: timers run in order of time, by the injected clock, and can be cancelled") {
  Reactor::Time now{1000s};
  Reactor reactor([&] { return now; });
  std::string order;
  reactor.after(20ms, [&] { order += 'b'; });
  reactor.after(10ms, [&] { order += 'a'; });
  const auto gone = reactor.after(15ms, [&] { order += 'x'; });
  reactor.turn(0ms);
  CHECK(order.empty());
  reactor.cancel(gone);
  reactor.cancel(gone);
  now += 20ms;
  reactor.turn(0ms);
  CHECK(order == "ab");
}

TEST_CASE("reactor: a timer that sets itself again for now waits for the next turn") {
  Reactor::Time now{1000s};
  Reactor reactor([&] { return now; });
  int runs = 0;
  std::function<void()> again = [&] {
    ++runs;
    reactor.after(0ms, again);
  };
  reactor.after(0ms, again);
  reactor.turn(0ms);
  CHECK(runs == 1);
  reactor.turn(0ms);
  CHECK(runs == 2);
}

TEST_CASE("reactor: a timer may cancel another one that is due in the same turn") {
  Reactor::Time now{1000s};
  Reactor reactor([&] { return now; });
  bool ran = false;
  Reactor::TimerId second = 0;
  reactor.after(1ms, [&] { reactor.cancel(second); });
  second = reactor.after(2ms, [&] { ran = true; });
  now += 5ms;
  reactor.turn(0ms);
  CHECK_FALSE(ran);
}

TEST_CASE("reactor: descriptors are level-triggered; a handler may forget itself and others") {
  Reactor reactor;
  Pair one;
  Pair two;
  int first = 0;
  int second = 0;
  reactor.watch(one.b.get(), EPOLLIN, [&](std::uint32_t) { ++first; });
  one.write();
  reactor.turn(1s);
  reactor.turn(1s);
  CHECK(first == 2);
  one.read();
  reactor.turn(0ms);
  CHECK(first == 2);

  auto either = [&](std::uint32_t) {
    ++second;
    reactor.forget(one.b.get());
    reactor.forget(two.b.get());
  };
  reactor.watch(one.b.get(), EPOLLIN, either);
  reactor.watch(two.b.get(), EPOLLIN, either);
  one.write();
  two.write();
  reactor.turn(1s);
  CHECK(second == 1);
}

TEST_CASE("reactor: an event for a descriptor that was reused in the same turn does not reach its new handler") {
  Reactor reactor;
  Pair one;
  auto two = std::make_unique<Pair>();
  bool wrong = false;
  bool reused = false;
  std::unique_ptr<Pair> three;
  auto either = [&](std::uint32_t) {
    if (reused) return;
    reused = true;
    const int old = two->b.get();
    reactor.forget(one.b.get());
    reactor.forget(old);
    two.reset();
    three = std::make_unique<Pair>();
    CHECK((three->a.get() == old || three->b.get() == old));
    reactor.watch(old, EPOLLIN, [&](std::uint32_t) { wrong = true; });
  };
  reactor.watch(one.b.get(), EPOLLIN, either);
  reactor.watch(two->b.get(), EPOLLIN, either);
  one.write();
  two->write();
  reactor.turn(1s);
  CHECK(reused);
  CHECK_FALSE(wrong);
}

TEST_CASE("reactor: post and stop come from any thread, in order") {
  Reactor reactor;
  int sum = 0;
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) reactor.post([&, i] { sum = sum * 3 % 1000003 + i; });
    reactor.post([&] { reactor.stop(); });
  });
  reactor.run();
  other.join();
  int expected = 0;
  for (int i = 0; i < 1000; ++i) expected = expected * 3 % 1000003 + i;
  CHECK(sum == expected);
}

TEST_CASE("reactor: turn-end hooks run after the handlers of the turn and may forget themselves") {
  Reactor reactor;
  std::string order;
  std::uint64_t hook = 0;
  hook = reactor.add_turn_end([&] {
    order += 'h';
    reactor.forget_turn_end(hook);
  });
  reactor.post([&] { order += 'p'; });
  reactor.turn(1s);
  reactor.turn(0ms);
  CHECK(order == "ph");
}

TEST_CASE("reactor: a ZeroMQ socket is served until it is empty, however little its handler takes at a time") {
  Reactor reactor;
  zmq::context_t context;
  zmq::socket_t in(context, zmq::socket_type::pair);
  zmq::socket_t out(context, zmq::socket_type::pair);
  in.bind("inproc://reactor-test");
  out.connect("inproc://reactor-test");
  int received = 0;
  reactor.watch_socket(in.handle(), [&] {
    zmq::message_t message;
    if (in.recv(message, zmq::recv_flags::dontwait)) ++received;
    return false;  // one at a time: the edge of ZMQ_FD must not be all that wakes us
  });
  for (int i = 0; i < 50; ++i) out.send(zmq::buffer("x", 1), zmq::send_flags::none);
  const auto deadline = Reactor::Clock::now() + 5s;
  while (received < 50 && Reactor::Clock::now() < deadline) reactor.turn(100ms);
  CHECK(received == 50);
  reactor.forget_socket(in.handle());
}

TEST_CASE("reactor: what is posted while posted tasks run wakes the loop again") {
  Reactor reactor;
  bool ran = false;
  reactor.post([&] { reactor.post([&] { ran = true; }); });
  // The first turn is woken by the first task. The wake-up of the second must outlive it.
  reactor.turn(std::chrono::seconds(10));
  const auto start = std::chrono::steady_clock::now();
  if (!ran) reactor.turn(std::chrono::seconds(10));
  CHECK(ran);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
}
