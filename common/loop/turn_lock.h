#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace meshbus {

/// A mutex that is handed over in the order in which threads ask for it: a thread that takes it
/// again and again (a sender that flushes) cannot keep out another one that waits (the thread that
/// turns the loop). Any thread.
class TurnLock {
 public:
  TurnLock() = default;
  TurnLock(const TurnLock&) = delete;
  TurnLock& operator=(const TurnLock&) = delete;

  void lock() {
    std::unique_lock lock(mutex_);
    const std::uint64_t ticket = next_++;
    if (ticket != serving_) changed_.wait(lock, [&] { return ticket == serving_; });
  }
  /// False when another thread holds it or waits for it.
  bool try_lock() {
    const std::lock_guard lock(mutex_);
    if (next_ != serving_) return false;
    ++next_;
    return true;
  }
  void unlock() {
    bool is_awaited = false;
    {
      const std::lock_guard lock(mutex_);
      is_awaited = ++serving_ != next_;
    }
    // All of them, because one condition serves every ticket; rarely more than two wait.
    if (is_awaited) changed_.notify_all();
  }
  /// Threads that wait for it.
  std::size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return next_ == serving_ ? 0 : static_cast<std::size_t>(next_ - serving_ - 1);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_ = 0;     // guarded by mutex_
  std::uint64_t serving_ = 0;  // guarded by mutex_
};

}  // namespace meshbus
