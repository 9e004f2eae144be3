#include "common/loop/reactor.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include <zmq.hpp>

#include "common/loop/zmq_watch.h"

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

TEST_CASE("reactor: a thousand timers that are due at once keep nobody waiting for all of them") {
  Reactor reactor;
  std::size_t timers = 0;
  std::size_t timers_before_post = 0;
  for (int i = 0; i < 1000; ++i)
    reactor.after(0s, [&] {
      if (++timers == 1) reactor.post([&] { timers_before_post = timers; });
    });
  while (timers < 1000) reactor.turn(0s);
  CHECK(timers_before_post > 0);
  CHECK(timers_before_post < 100);
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

TEST_CASE(
    "reactor: an event for a descriptor that was reused in the same turn does not reach its new "
    "handler") {
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

TEST_CASE(
    "reactor: a ZeroMQ socket is served until it is empty, however little its handler takes at a "
    "time") {
  Reactor reactor;
  zmq::context_t context;
  zmq::socket_t in(context, zmq::socket_type::pair);
  zmq::socket_t out(context, zmq::socket_type::pair);
  in.bind("inproc://reactor-test");
  out.connect("inproc://reactor-test");
  int received = 0;
  watch_zmq(reactor, in.handle(), [&] {
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

TEST_CASE(
    "reactor: threads that share the loop take turns one at a time, in order, and all leave at a "
    "stop") {
  Reactor reactor;
  std::atomic<int> inside{0};
  std::vector<int> order;
  const auto run = [&] { reactor.run_until([] { return false; }); };
  std::thread one(run), other(run);
  std::promise<void> last;
  for (int i = 0; i < 20'000; ++i) {
    reactor.post([&, i] {
      CHECK(++inside == 1);
      order.push_back(i);
      --inside;
      if (i == 19'999) last.set_value();
    });
  }
  CHECK(last.get_future().wait_for(10s) == std::future_status::ready);
  reactor.stop();
  one.join();
  other.join();
  REQUIRE(order.size() == 20'000);
  CHECK(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("reactor: what one thread of a shared loop leaves undone, another one does") {
  Reactor reactor;
  std::thread other([&] { reactor.run_until([] { return false; }); });
  for (int i = 0; i < 1000; ++i) {
    std::promise<void> posted, timed;
    // As a thread that has no time for a turn after all.
    reactor.post_quietly([&] {
      posted.set_value();
      reactor.after(1ms, [&] { timed.set_value(); });
    });
    reactor.run_until([] { return true; });
    REQUIRE(posted.get_future().wait_for(10s) == std::future_status::ready);
    REQUIRE(timed.get_future().wait_for(10s) == std::future_status::ready);
  }
  for (int i = 0; i < 100; ++i) {
    // As one that has turned, and set a timer.
    std::promise<void> timed;
    bool is_set = false;
    reactor.post_quietly([&] {
      reactor.after(1ms, [&] { timed.set_value(); });
      is_set = true;
    });
    reactor.run_until([&] { return is_set; });
    REQUIRE(timed.get_future().wait_for(10s) == std::future_status::ready);
  }
  reactor.stop();
  other.join();
}

TEST_CASE(
    "reactor: a timer of a shared loop runs in time whichever thread has set it, and when an "
    "earlier one was cancelled") {
  Reactor reactor;
  std::promise<Reactor::Time> rang;
  const auto start = Reactor::Clock::now();
  std::thread one([&] { reactor.run_until([] { return false; }); });
  std::thread other([&] { reactor.run_until([] { return false; }); });
  reactor.post([&] {
    reactor.after(10s, [] {});
    const auto cancelled = reactor.after(1ms, [] { FAIL("it was cancelled"); });
    reactor.after(20ms, [&] { rang.set_value(Reactor::Clock::now()); });
    reactor.cancel(cancelled);
  });
  auto when = rang.get_future();
  REQUIRE(when.wait_for(5s) == std::future_status::ready);
  CHECK(when.get() - start >= 20ms);
  reactor.stop();
  one.join();
  other.join();
}

TEST_CASE(
    "reactor: threads leave a shared loop once they have enough, whoever turned it meanwhile") {
  Reactor reactor;
  std::thread stays([&] { reactor.run_until([] { return false; }); });
  constexpr int kThreads = 3, kTimes = 2000;
  struct Waiter {
    std::atomic<int> given = 0;
    std::atomic<int> seen = 0;
    std::thread thread = {};
  };
  std::array<Waiter, kThreads> waiters;
  for (auto& waiter : waiters) {
    waiter.thread = std::thread([&reactor, &waiter] {
      for (int i = 1; i <= kTimes; ++i) {
        reactor.run_until([&] { return waiter.given >= i; });
        waiter.seen = i;
      }
    });
  }
  const auto until = std::chrono::steady_clock::now() + 60s;
  for (int i = 1; i <= kTimes; ++i) {
    // By a turn, which any of them runs; by a visitor; or from outside, with a wake-up.
    for (auto& waiter : waiters) {
      const auto give = [&] { waiter.given = i; };
      switch (i % 3) {
        case 0: reactor.post(give); break;
        case 1: {
          const auto visit = reactor.visit();
          give();
          break;
        }
        default: give(); reactor.wake();
      }
    }
    for (auto& waiter : waiters) {
      while (waiter.seen < i && std::chrono::steady_clock::now() < until) std::this_thread::yield();
      INFO(i);
      REQUIRE(waiter.seen == i);
    }
  }
  reactor.stop();
  stays.join();
  for (auto& waiter : waiters) waiter.thread.join();
}

TEST_CASE("reactor: a ZeroMQ socket of a shared loop loses nothing") {
  Reactor reactor;
  zmq::context_t context;
  zmq::socket_t in(context, zmq::socket_type::pair);
  zmq::socket_t out(context, zmq::socket_type::pair);
  in.bind("inproc://reactor-test");
  out.connect("inproc://reactor-test");
  std::atomic<int> received{0};
  std::promise<void> all;
  watch_zmq(reactor, in.handle(), [&] {
    zmq::message_t message;
    while (in.recv(message, zmq::recv_flags::dontwait)) {
      // Sending swallows wake-ups of the same socket.
      in.send(message, zmq::send_flags::dontwait);
      if (++received == 5000) all.set_value();
    }
    return false;
  });
  // One that stays, and one that comes and goes.
  std::thread stays([&] { reactor.run_until([] { return false; }); });
  std::atomic<bool> is_over{false};
  std::thread goes([&] {
    while (!is_over) {
      const int before = received;
      reactor.run_until([&] { return is_over || received > before; });
    }
  });
  out.set(zmq::sockopt::rcvtimeo, 10'000);
  for (int i = 0; i < 5000; ++i) {
    out.send(zmq::buffer("x", 1), zmq::send_flags::none);
    zmq::message_t echo;
    REQUIRE(out.recv(echo));
  }
  CHECK(all.get_future().wait_for(10s) == std::future_status::ready);
  is_over = true;
  reactor.stop();
  stays.join();
  goes.join();
  reactor.forget_socket(in.handle());
}
