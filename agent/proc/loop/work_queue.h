#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "agent/proc/loop/loop_sharing.h"

namespace meshbus::mesh_proc {

/// The thread that the program's handlers run on, one at a time, and what waits for it. Every
/// function may be called from any thread.
class WorkQueue {
 public:
  using Task = std::function<void()>;
  struct Limits {
    std::size_t bytes;
    std::size_t count;
  };
  explicit WorkQueue(Limits limits) : limits_(limits) {}

  /// Makes the thread. It takes over the caller's signal mask, so that what handlers execute gets
  /// the program's own.
  void start();
  bool is_running() const noexcept { return thread_.joinable(); }
  /// From now on the thread turns the loop while nothing is queued. `wake` is called for what is
  /// queued meanwhile. Once.
  void share_loop(LoopSharing::Turn turn, LoopSharing::Wake wake);

  /// Queues work that holds so many bytes. False when the queue is full or finished.
  bool push(std::size_t bytes, Task task) { return push(bytes, 1, std::move(task)); }
  /// The same; it counts as so many pieces of work.
  bool push(std::size_t bytes, std::size_t count, Task task);
  /// Whether push() would take one piece more behind so many bytes and pieces that are still to be
  /// pushed.
  bool has_room(std::size_t bytes = 0, std::size_t count = 0) const noexcept {
    return !finished_ && count_ + count < limits_.count && bytes_ + bytes < limits_.bytes;
  }
  /// Queues work of our own, which is never refused: before or behind everything else.
  void push_first(Task task);
  void push_last(Task task);

  /// Runs what is queued, takes nothing more, and waits for the end. Called from a task: only takes
  /// nothing more.
  void finish();
  /// Whether the caller is a task, or turns the loop as the thread of this.
  bool is_here() const noexcept;
  /// Whether the thread is to leave the loop: there is work, or this is the end.
  bool is_wanted() const;
  /// Pieces of work that wait for the thread.
  std::size_t waiting() const noexcept { return count_; }
  /// Bytes that these hold.
  std::size_t bytes() const noexcept { return bytes_; }
  /// Counts what was queued.
  std::uint64_t pushes() const noexcept { return pushes_; }
  /// From a task: whether nothing else is queued, so that the thread turns the loop at once.
  bool is_last();

 private:
  struct Item {
    std::size_t bytes;
    std::size_t count;
    Task task;
  };
  void run();
  bool has_reason() const noexcept { return finished_ || !items_.empty(); }
  /// Something was added: the thread is to see it. Unlocks.
  void call(std::unique_lock<std::mutex> lock);

  const Limits limits_;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;  // guarded by mutex_, like what follows
  // Written with the mutex held, read without.
  std::atomic<std::size_t> bytes_{0};
  std::atomic<std::size_t> count_{0};
  std::atomic<bool> finished_{false};
  LoopSharing sharing_;
  std::atomic<std::uint64_t> pushes_{0};
};

}  // namespace meshbus::mesh_proc
