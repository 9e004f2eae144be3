#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "agent/proc/actors/actor_pool.h"
#include "agent/proc/loop/work_queue.h"
#include "common/loop/reactor.h"

namespace meshbus::mesh_proc {

/// The reactor of a proc, the thread that was made for it, and which thread turns it: the handlers'
/// thread, or one of those of actors, while it has nothing to run; the one that was made for it,
/// meanwhile. Of the former at most one waits in the reactor: the one that has run something last,
/// since what comes next is most likely for it. What it hears that is for the others it leaves to
/// them, and sleeps. (See LoopSharing for the side of those threads.) A thread of the program that
/// waits for an answer waits in the reactor, too; while it does, the others sleep.
class SharedLoop {
 public:
  SharedLoop() = default;
  SharedLoop(const SharedLoop&) = delete;
  SharedLoop& operator=(const SharedLoop&) = delete;

  Reactor& reactor() noexcept { return reactor_; }
  /// Whether the caller is in a turn of a reactor that is one of these.
  static bool is_here() noexcept { return is_here_; }

  /// Makes the thread, which takes no signal of the program, and runs `body` on it.
  void start(std::function<void()> body);
  /// False when start() has thrown, or was not called.
  bool is_started() const noexcept { return thread_.joinable(); }
  /// On that thread: turns the reactor until stop(), with idle threads of `work` and `pool`. When
  /// it returns none of them turns it any more. `has_work`: `work` has a thread.
  void turn(WorkQueue& work, bool has_work, ActorPool& pool);
  /// On a thread of the program that waits for an answer: turns the reactor until `is_done`, so
  /// that the answer need not wake one thread after the other. Any thread may ask that. Returns at
  /// once while another thread waits so, and when the reactor stops.
  void turn_until(const std::function<bool()>& is_done) noexcept;
  /// In a turn.
  void stop();
  void join() { thread_.join(); }

 private:
  /// On a thread that has nothing to do: takes over the reactor, so that a message need not wake
  /// one thread after the other. Until `is_enough`; not at all while another one does so.
  void turn_meanwhile(const std::function<bool()>& is_enough);

  static inline thread_local bool is_here_ = false;

  Reactor reactor_;
  std::atomic<bool> is_stopped_{false};
  /// Another thread than the one that was made for it waits in the reactor, or turns it.
  std::atomic<bool> is_helped_{false};
  std::thread thread_;
};

}  // namespace meshbus::mesh_proc
