#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

namespace meshbus::mesh_proc {

/// How the threads of a pool share the event loop (Leader/Followers): an idle thread leads, which
/// means that it turns the loop instead of sleeping; further idle threads follow, which means that
/// they sleep. So what arrives for an idle pool is received and handled by one thread, without a
/// hand-over between two.
///
///     state    | follow()                     | the loop returns
///     ---------+------------------------------+------------------
///     no loop  | sleeps                       | -
///     free     | leads: led                   | -
///     led      | wakes the leader, and sleeps | free
///
/// The mutex of the pool guards it: every function is called with it held, and returns with it
/// held.
class LoopSharing {
 public:
  using Lock = std::unique_lock<std::mutex>;
  /// Turns the loop until the pool has work: to be asked again after each `wake`. May return
  /// earlier; the thread then sleeps, or begins again when others sleep because it led.
  using Turn = std::function<void()>;
  /// Has the loop ask that. Called on any thread.
  using Wake = std::function<void()>;

  /// From now on there is a loop. Once.
  void set(Turn turn, Wake wake) {
    turn_ = std::move(turn);
    wake_ = std::move(wake);
  }
  bool has_loop() const noexcept { return turn_ != nullptr; }
  bool is_led() const noexcept { return is_led_; }
  void wake() const {
    if (wake_) wake_();
  }

  /// Waits until `has_work()`: as the leader, or asleep until `work_came` is notified. Unlocks
  /// meanwhile.
  template <typename HasWork>
  void follow(Lock& lock, std::condition_variable& work_came, HasWork has_work) {
    while (!has_work()) {
      const bool is_wanted = lead(lock);
      if (!has_work() && !is_wanted) work_came.wait(lock);
    }
  }

 private:
  /// Turns the loop, unless there is none or another thread does. True: while it did, a further
  /// thread became idle and sleeps in the belief that the loop is led; that one may also have taken
  /// the work that this one came back for.
  bool lead(Lock& lock);

  Turn turn_;
  Wake wake_;
  bool is_led_ = false;
  bool has_follower_ = false;  ///< Since the leader began.
};

}  // namespace meshbus::mesh_proc
