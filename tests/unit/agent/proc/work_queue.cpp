#include "agent/proc/loop/work_queue.h"

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

using meshbus::mesh_proc::WorkQueue;

TEST_CASE("proc_work_queue: runs work in order, one at a time, on its own thread") {
  WorkQueue queue({1000, 1000});
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    REQUIRE(queue.push(1, [&, i] {
      CHECK(queue.is_here());
      order.push_back(i);
    }));
  }
  queue.start();
  queue.finish();
  CHECK_FALSE(queue.is_here());
  REQUIRE(order.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("proc_work_queue: our own work goes before or behind what is queued") {
  WorkQueue queue({1000, 2});
  std::string order;
  REQUIRE(queue.push(1, [&] { order += 'a'; }));
  REQUIRE(queue.push(1, [&] { order += 'b'; }));
  queue.push_last([&] { order += 'z'; });
  queue.push_first([&] { order += '0'; });
  queue.start();
  queue.finish();
  CHECK(order == "0abz");
}

TEST_CASE("proc_work_queue: bounded in bytes and in number, the work that runs included") {
  WorkQueue queue({100, 3});
  std::promise<void> started, go;
  REQUIRE(queue.push(60, [&] {
    started.set_value();
    go.get_future().wait();
  }));
  queue.start();
  started.get_future().wait();
  CHECK_FALSE(queue.push(41, [] {}));
  CHECK(queue.push(40, [] {}));
  CHECK(queue.push(0, [] {}));
  CHECK(queue.push(0, [] {}));
  CHECK_FALSE(queue.push(0, [] {}));
  go.set_value();
  queue.finish();
}

TEST_CASE("proc_work_queue: one piece of work always fits") {
  WorkQueue queue({10, 10});
  bool ran = false;
  CHECK(queue.push(1000, [&] { ran = true; }));
  queue.start();
  queue.finish();
  CHECK(ran);
}

TEST_CASE("proc_work_queue: takes nothing after finish, which a task may call too") {
  WorkQueue queue({100, 100});
  std::string order;
  queue.push_last([&] {
    order += 'a';
    queue.finish();
    CHECK_FALSE(queue.push(1, [&] { order += 'x'; }));
  });
  queue.push_last([&] { order += 'b'; });
  queue.start();
  queue.finish();
  CHECK(order == "ab");
}

TEST_CASE("proc_work_queue: its thread turns the loop while nothing is queued") {
  WorkQueue queue({1000, 1000});
  std::mutex mutex;
  std::condition_variable changed;
  bool is_awake = false;
  std::atomic<int> times{0};
  queue.share_loop(
      [&] {
        CHECK(queue.is_here());
        ++times;
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return std::exchange(is_awake, false) && queue.is_wanted(); });
      },
      [&] {
        const std::lock_guard lock(mutex);
        is_awake = true;
        changed.notify_one();
      });
  queue.start();
  for (int i = 1; i <= 1000; ++i) {
    std::promise<bool> done;
    REQUIRE(queue.push(1, [&] { done.set_value(queue.is_last()); }));
    auto was_last = done.get_future();
    REQUIRE(was_last.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
    CHECK(was_last.get());
  }
  queue.finish();
  CHECK(times > 0);
}

TEST_CASE("proc_work_queue: a task that is not the last one knows") {
  WorkQueue queue({1000, 1000});
  std::vector<bool> was_last;
  const auto ask = [&] { was_last.push_back(queue.is_last()); };
  queue.push_last(ask);
  queue.push_last(ask);
  queue.share_loop([] {}, [] {});
  queue.start();
  queue.finish();
  REQUIRE(was_last.size() == 2);
  CHECK_FALSE(was_last[0]);
}
