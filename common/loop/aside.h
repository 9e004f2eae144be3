#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace meshbus {

/// Where the thread that is always in a shared loop (Reactor::run_for_all) steps, while other
/// threads come to the loop again and again, each to wait for what comes next. It would else often
/// be the only one that sleeps in the loop when that comes, and would have to hand it over.
class Aside {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  /// Threads come again and again when they have done so kOften times, each kSoon after the last
  /// time at most, and until kAway after that.
  static constexpr std::chrono::microseconds kSoon{50};
  static constexpr unsigned kOften = 8;
  static constexpr std::chrono::microseconds kAway{200};
  /// It looks again after an eighth of the time that they have done so, and this at most.
  static constexpr std::chrono::microseconds kMost{3000};

  Aside() = default;
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

  /// Another thread has come, or leaves. One at a time.
  void note_coming(Time now = Clock::now()) {
    // Something else may take the CPU now and then.
    visits_ = now - seen_.load() < kSoon ? std::min(visits_ + 1, 8 * kOften) : visits_ / 2;
    if (visits_ < kOften) since_ = now;
    seen_ = now;
  }
  void note_leaving(Time now = Clock::now()) { seen_ = now; }

  /// Whether the thread is to step aside now: it then calls leave_loop() before others can come,
  /// and stay().
  bool is_wanted(Time now = Clock::now()) const { return time(now) > Clock::duration::zero(); }
  void leave_loop() noexcept { is_here_ = true; }
  /// Until end(), or until others do not come any more.
  void stay() {
    std::unique_lock lock(mutex_);
    while (is_here_) {
      const auto at_most = time(Clock::now());
      if (at_most <= Clock::duration::zero()) break;
      over_.wait_for(lock, at_most);
    }
    is_here_ = false;
  }
  /// Any thread.
  void end() {
    if (!is_here_) return;
    const std::lock_guard lock(mutex_);
    is_here_ = false;
    over_.notify_one();
  }

 private:
  /// How long it is to stay before it looks again; zero: not at all.
  Clock::duration time(Time now) const {
    if (visits_ < kOften) return {};
    if (now - seen_.load() >= kAway) return {};
    return std::clamp<Clock::duration>((now - since_.load()) / 8, kAway, kMost);
  }

  std::atomic<Time> since_{Time()};
  std::atomic<Time> seen_{Time()};
  std::atomic<unsigned> visits_{0};
  std::mutex mutex_;
  std::condition_variable over_;
  std::atomic<bool> is_here_{false};
};

}  // namespace meshbus
