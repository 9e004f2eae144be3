#include "common/bus/outgoing.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

using namespace meshbus;
using namespace std::chrono_literals;

TEST_CASE("outgoing: a sender waits until there is room for what it has, and no longer") {
  OutgoingRoom room({.bytes = 1000, .queued = 4});
  CHECK(room.has_room({900, 0}, {100, 1}));
  CHECK_FALSE(room.has_room({901, 0}, {100, 1}));
  CHECK_FALSE(room.has_room({0, Bus::kMostOutstanding}, {100, 1}));
  CHECK(room.has_room({0, 0, 3}, {100, 1}));
  CHECK_FALSE(room.has_room({0, 0, 4}, {100, 1}));
  room.report({1000, 3});
  const auto later = [](auto wait) { return std::chrono::steady_clock::now() + wait; };
  CHECK_FALSE(room.wait({100, 1}, later(1ms)));
  auto small = std::async(std::launch::async, [&] { return room.wait({100, 1}, later(20s)); });
  auto large = std::async(std::launch::async, [&] { return room.wait({900, 1}, later(20s)); });
  room.report({900, 3});
  CHECK(small.get());
  CHECK(large.wait_for(0s) != std::future_status::ready);
  room.report({100, 3});
  CHECK(large.get());
  CHECK(room.is_full({1000, 3}).code() == ErrorCode::queue_full);
}

TEST_CASE("postbox: other threads pack nothing before the session is shared, and all of it after") {
  Reactor reactor;
  Session::Options options;
  options.endpoint = "ipc:///nobody/listens";
  Session session(reactor, options, {});
  Postbox postbox(session);
  postbox.set_packable(true);
  using Outcome = Postbox::Packed::Outcome;
  const Postbox::Most most{.bytes = 16 * 1024 * 1024};
  CHECK_FALSE(session.lock().owns_lock());
  CHECK(postbox.pack(1, 0, 5, "body", nullptr, most).outcome == Outcome::not_now);
  CHECK(postbox.load().queued == 0);
  session.share();
  CHECK(session.lock().owns_lock());
  constexpr std::size_t kEach = 20'000;
  std::atomic<std::size_t> packed{0};
  std::vector<std::thread> senders;
  for (std::uint64_t proc = 1; proc <= 2; ++proc) {
    senders.emplace_back([&, proc] {
      for (std::size_t i = 0; i < kEach; ++i)
        packed +=
            postbox.pack(proc, 0, 5, "body", nullptr, most).outcome == Outcome::packed ? 1 : 0;
    });
  }
  for (std::size_t i = 0; i < kEach; ++i)
    packed += postbox.post(Destination{3, 0, {}}.envelope(5, wire::Kind::message, wire::Lane::data),
                           "body") != 0
                  ? 1
                  : 0;
  for (auto& sender : senders) sender.join();
  CHECK(packed == 3 * kEach);
  CHECK(postbox.load().queued == 3 * kEach);
  CHECK(postbox.counts().sent.sent == 3 * kEach);
}

TEST_CASE("outgoing: the flusher flushes at least once after each time that it is asked") {
  std::atomic<std::uint64_t> packed{0}, left{0};
  std::atomic<std::uint64_t> flushes{0};
  Flusher flusher([&] {
    left = packed.load();
    ++flushes;
  });
  constexpr std::uint64_t kEach = 20'000;
  std::vector<std::thread> senders;
  for (int i = 0; i < 2; ++i) {
    senders.emplace_back([&] {
      for (std::uint64_t n = 0; n < kEach; ++n) {
        ++packed;
        CHECK(flusher.ask());
      }
    });
  }
  for (auto& sender : senders) sender.join();
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (left < 2 * kEach && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  CHECK(left == 2 * kEach);
  flusher.stop();
  const auto before = flushes.load();
  flusher.ask();
  CHECK(flushes == before);
}

TEST_CASE("outgoing: a flusher that nobody asked has no thread to stop") {
  Flusher flusher([] {});
  flusher.stop();
  CHECK_FALSE(flusher.ask());
}

TEST_CASE("outgoing: visitors and turns of a reactor never run at the same time") {
  Reactor reactor;
  const auto run = [&] { reactor.run_until([] { return false; }); };
  std::thread one(run), other(run);
  std::uint64_t count = 0;  // guarded by a turn or a visit
  constexpr int kEach = 5000;
  std::vector<std::thread> visitors;
  std::atomic<int> timers{0};
  for (int i = 0; i < 2; ++i) {
    visitors.emplace_back([&] {
      for (int n = 0; n < kEach; ++n) {
        CHECK_FALSE(reactor.is_in_turn());
        {
          const auto visit = reactor.visit();
          CHECK(reactor.is_in_turn());
          ++count;
          if (n % 100 == 0) reactor.after(1ms, [&] { ++timers; });
        }
        if (const auto visit = reactor.try_visit()) {
          ++count;
        } else {
          reactor.post([&] {
            CHECK(reactor.is_in_turn());
            ++count;
          });
        }
      }
    });
  }
  for (auto& visitor : visitors) visitor.join();
  std::promise<std::uint64_t> last;
  reactor.post([&] { last.set_value(count); });
  CHECK(last.get_future().get() == 4 * kEach);
  // A thread that waits notices a visitor's timers.
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (timers < 2 * kEach / 100 && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  CHECK(timers == 2 * kEach / 100);
  reactor.stop();
  one.join();
  other.join();
}

TEST_CASE("turn_lock: is handed over in the order in which threads ask for it") {
  TurnLock turns;
  turns.lock();
  CHECK_FALSE(turns.try_lock());
  std::vector<int> order;  // guarded by turns
  std::atomic<int> asked{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      while (asked != i) std::this_thread::yield();
      ++asked;
      const std::lock_guard lock(turns);
      order.push_back(i);
    });
    while (asked != i + 1 || turns.waiting() != static_cast<std::size_t>(i) + 1)
      std::this_thread::yield();
  }
  turns.unlock();
  // Waiting threads go first, however fast this one comes again.
  turns.lock();
  CHECK(order == std::vector<int>{0, 1, 2});
  turns.unlock();
  for (auto& thread : threads) thread.join();
  REQUIRE(turns.try_lock());
  turns.unlock();
}
