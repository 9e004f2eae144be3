#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "common/loop/turn_lock.h"

namespace meshbus {

/// The threads that share a reactor's loop (Reactor::run_until), and what each waits for. A wake-up
/// meets any of those that sleep in it. So a thread that finds another one asleep although that has
/// enough wakes one, and stays out until the right one is awake. The turn lock of the reactor
/// guards it: functions are called with it held, unless they say otherwise.
class LoopGuests {
 public:
  /// A thread in the loop, as long as this lives.
  class Guest {
   public:
    Guest(LoopGuests& guests, const std::function<bool()>& is_enough)
        : guests_(guests), is_enough_(is_enough) {
      guests_.all_.push_back(this);
    }
    ~Guest() { std::erase(guests_.all_, this); }
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;

    void fall_asleep() noexcept { sleep_ = ++guests_.sleeps_; }
    /// Before it sleeps again the thread calls see_out().
    void wake_up() {
      sleep_ = 0;
      if (guests_.seeing_out_ > 0) guests_.is_awake_.notify_all();
    }

   private:
    friend class LoopGuests;
    LoopGuests& guests_;
    /// Any thread asks it.
    const std::function<bool()>& is_enough_;
    /// Which of all sleeps this is; 0: it is awake.
    std::uint64_t sleep_ = 0;
  };

  LoopGuests() = default;
  LoopGuests(const LoopGuests&) = delete;
  LoopGuests& operator=(const LoopGuests&) = delete;

  /// Whether a thread is asleep although it has enough.
  bool has_overdue() const { return find_overdue(nullptr) != nullptr; }
  /// If another one is: calls `wake`, and waits until that one is awake, or has not enough any
  /// more. Unlocks meanwhile. False when there is none.
  template <typename Wake>
  bool see_out(const Guest& self, std::unique_lock<TurnLock>& lock, Wake wake) {
    const Guest* const overdue = find_overdue(&self);
    if (overdue == nullptr) return false;
    wake();
    ++seeing_out_;
    // It may leave, come again and fall asleep before this thread looks; and another thread may
    // have taken what it was to get.
    is_awake_.wait(lock, [this, sleep = overdue->sleep_] {
      return std::ranges::none_of(all_, [sleep](const Guest* guest) {
        return guest->sleep_ == sleep && guest->is_enough_();
      });
    });
    --seeing_out_;
    return true;
  }

  /// Any thread. One at a time is the waiter (Reactor::wait_until); false when another one is.
  bool become_waiter() noexcept { return !has_waiter_.exchange(true); }
  bool has_waiter() const noexcept { return has_waiter_; }
  void stop_waiting() noexcept {
    has_waiter_ = false;
    has_waiter_.notify_all();
  }
  void wait_for_waiter() const noexcept { has_waiter_.wait(true); }

 private:
  const Guest* find_overdue(const Guest* but) const {
    const auto found = std::ranges::find_if(all_, [but](const Guest* guest) {
      return guest != but && guest->sleep_ != 0 && guest->is_enough_();
    });
    return found == all_.end() ? nullptr : *found;
  }

  std::vector<const Guest*> all_;
  std::uint64_t sleeps_ = 0;
  std::size_t seeing_out_ = 0;
  std::condition_variable_any is_awake_;
  std::atomic<bool> has_waiter_{false};
};

}  // namespace meshbus
