#pragma once

#include <csignal>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "agent/proc/loop/loop_sharing.h"

namespace meshbus::mesh_proc {

/// When an actor is to let others run. Pure.
class Slice {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr unsigned kMaxSteps = 64;
  static constexpr std::chrono::milliseconds kMaxTime{2};

  explicit Slice(Time begin) : begin_(begin) {}
  /// One thing is done.
  bool is_over(Time now) noexcept { return ++steps_ >= kMaxSteps || now - begin_ >= kMaxTime; }

 private:
  Time begin_;
  unsigned steps_ = 0;
};

/// A few threads, and a queue of work for them, first come, first served. Every function may be
/// called from any thread.
class ActorPool {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    std::size_t threads = 4;
    /// With those that stand in for threads that are kept for long.
    std::size_t most_threads = 64;
    /// Work that runs for longer keeps its thread to itself.
    Clock::duration patience = std::chrono::seconds(1);
  };
  /// Does something, for a slice of time. To run again it submits itself again.
  class Runnable {
   public:
    virtual ~Runnable() = default;
    virtual void run() = 0;
  };

  explicit ActorPool(Options options) : options_(options) {}
  ~ActorPool() { finish(); }
  ActorPool(const ActorPool&) = delete;
  ActorPool& operator=(const ActorPool&) = delete;

  /// Makes the threads. They, and those that come later, take over the caller's signal mask: what
  /// handlers execute inherits it.
  void start();
  /// From now on one of the threads turns the loop while nothing is queued. `wake` is called for
  /// what is queued meanwhile. Once.
  void share_loop(LoopSharing::Turn turn, LoopSharing::Wake wake);
  /// Queues all of them, with one wake-up for each thread that has something to do now. In a turn
  /// of the loop, which sees to it that the thread of the pool that turns it leaves.
  void submit(std::vector<std::shared_ptr<Runnable>> batch);
  /// For what runs.
  void submit(std::shared_ptr<Runnable> one);

  /// Whether somebody waits although each thread is taken.
  bool is_starved() const;
  /// Makes threads in place of those that have been kept for longer than the patience, if anybody
  /// waits.
  void relieve(Clock::time_point now);
  std::size_t threads() const;

  /// Threads that finish() has left behind and that have not come back since.
  std::size_t left_behind() const;

  /// Whether the caller is something that runs.
  bool is_here() const noexcept;
  /// Whether a thread is to leave the loop: something is queued, or this is the end.
  bool is_wanted() const;
  /// Counts the batches that were queued.
  std::uint64_t batches() const noexcept { return batches_; }
  /// Ends the threads that are free and, unless they take longer than that, waits for the others.
  /// How many are left behind: they go on until what they run returns. Called by one of the
  /// threads: waits for none. What is queued is not run any more.
  std::size_t finish(Clock::duration wait = std::chrono::hours(24));

 private:
  struct Worker {
    std::thread thread = {};
    std::optional<Clock::time_point> busy_since = {};
    bool is_relieved = false;
    bool is_over = false;
    /// Nobody waits for it any more.
    bool is_left = false;
  };
  void add_worker();
  void work(Worker& self);
  std::size_t free_threads() const;
  bool has_reason() const noexcept { return finished_ || !queue_.empty(); }

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable ended_;
  std::deque<std::shared_ptr<Runnable>> queue_;  // guarded by mutex_, like what follows
  std::list<std::unique_ptr<Worker>> workers_;
  std::size_t relieved_ = 0;
  bool finished_ = false;
  sigset_t mask_{};
  LoopSharing sharing_;
  std::atomic<std::uint64_t> batches_{0};
};

}  // namespace meshbus::mesh_proc
