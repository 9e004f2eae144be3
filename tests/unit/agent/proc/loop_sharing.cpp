#include "agent/proc/loop/loop_sharing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

using meshbus::mesh_proc::LoopSharing;
using namespace std::chrono_literals;

namespace {

/// A pool of threads that count what they are given, and share a loop that one of them turns while
/// it has nothing to do.
class Pool {
 public:
  explicit Pool(int threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    work_came_.notify_all();
    sharing_.wake();
    for (auto& thread : threads_) thread.join();
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void set_loop() {
    const std::lock_guard lock(mutex_);
    sharing_.set([this] { turn(); }, [this] { wake(); });
    work_came_.notify_one();
  }
  void push() {
    const std::lock_guard lock(mutex_);
    ++work_;
    if (!sharing_.is_led()) work_came_.notify_one();
  }
  void wake() {
    const std::lock_guard lock(loop_mutex_);
    is_awake_ = true;
    woken_.notify_all();
  }
  /// Until a thread turns the loop: it leads a moment before it does.
  bool wait_led() {
    return wait([&] { return sharing_.is_led() && most_leaders_ > 0; });
  }
  bool wait_done(std::uint64_t count) {
    return wait([&] { return done_ >= count; });
  }
  int most_leaders() const { return most_leaders_; }

 private:
  template <typename Condition>
  bool wait(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        if (condition()) return true;
      }
      if (std::chrono::steady_clock::now() >= end) return false;
      std::this_thread::yield();
    }
  }
  bool has_reason() const { return is_over_ || work_ > 0; }
  void turn() {
    most_leaders_ = std::max(most_leaders_.load(), ++leaders_);
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        if (has_reason()) break;
      }
      std::unique_lock lock(loop_mutex_);
      woken_.wait(lock, [&] { return is_awake_; });
      is_awake_ = false;
    }
    --leaders_;
  }
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      sharing_.follow(lock, work_came_, [this] { return has_reason(); });
      if (work_ == 0) return;
      --work_;
      ++done_;
    }
  }

  std::mutex mutex_;
  std::condition_variable work_came_;
  LoopSharing sharing_;  // guarded by mutex_, like what follows
  std::uint64_t work_ = 0;
  std::uint64_t done_ = 0;
  bool is_over_ = false;
  std::mutex loop_mutex_;
  std::condition_variable woken_;
  bool is_awake_ = false;  // guarded by loop_mutex_
  std::atomic<int> leaders_{0};
  std::atomic<int> most_leaders_{0};
  std::vector<std::thread> threads_;
};

}  // namespace

TEST_CASE("loop_sharing: without a loop idle threads sleep until there is work") {
  Pool pool(2);
  pool.push();
  CHECK(pool.wait_done(1));
  CHECK(pool.most_leaders() == 0);
}

TEST_CASE("loop_sharing: one idle thread turns the loop, and comes back for work when woken") {
  Pool pool(3);
  pool.set_loop();
  REQUIRE(pool.wait_led());
  pool.push();  // the leader sleeps over it until it is woken
  pool.wake();
  CHECK(pool.wait_done(1));
  // Afterwards a thread leads again.
  CHECK(pool.wait_led());
  pool.wake();  // no work: it goes on
  CHECK(pool.most_leaders() == 1);
}

TEST_CASE("loop_sharing: no work is lost and never two lead, whoever pushes and wakes") {
  constexpr std::uint64_t kEach = 5000;
  Pool pool(3);
  std::vector<std::thread> pushers;
  for (int i = 0; i < 2; ++i) {
    pushers.emplace_back([&, i] {
      for (std::uint64_t n = 0; n < kEach; ++n) {
        pool.push();
        pool.wake();
        if (i == 0 && n == kEach / 10) pool.set_loop();
      }
    });
  }
  for (auto& pusher : pushers) pusher.join();
  CHECK(pool.wait_done(2 * kEach));
  CHECK(pool.wait_led());
  CHECK(pool.most_leaders() == 1);
}
