#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace meshbus::mesh_proc {

/// What a thread that waits for work does meanwhile, instead of sleeping: one of its owner's
/// threads at a time. Its owner's mutex guards it.
class Pastime {
 public:
  /// Goes on until its owner has work, which it is to ask again after each `wake`; or ends earlier,
  /// and that thread sleeps.
  using Run = std::function<void()>;
  /// Called on any thread.
  using Wake = std::function<void()>;

  void set(Run run, Wake wake) {
    run_ = std::move(run);
    wake_ = std::move(wake);
  }
  bool is_set() const noexcept { return run_ != nullptr; }
  /// A thread is at it.
  bool is_on() const noexcept { return is_on_; }
  /// Somebody waits in call().
  bool is_called() const noexcept { return is_called_; }
  void wake() const {
    if (wake_) wake_();
  }

  /// Passes the caller's time, unless there is nothing to do. Unlocks meanwhile. When another one
  /// is at it, that one is woken instead, for what the caller has left to it.
  void pass(std::unique_lock<std::mutex>& lock) {
    if (!is_set()) return;
    if (is_on_) return wake_();
    is_on_ = true;
    lock.unlock();
    run_();
    lock.lock();
    is_on_ = is_called_ = false;
    ++times_;
    ended_.notify_all();
  }
  /// Wakes who is at it, and waits until that is so. Unlocks meanwhile.
  void call(std::unique_lock<std::mutex>& lock) {
    if (!is_on_) return;
    is_called_ = true;
    const auto times = times_;
    lock.unlock();
    wake_();
    lock.lock();
    ended_.wait(lock, [&] { return times_ != times; });
  }

 private:
  Run run_;
  Wake wake_;
  bool is_on_ = false;
  bool is_called_ = false;
  std::uint64_t times_ = 0;
  std::condition_variable ended_;
};

}  // namespace meshbus::mesh_proc
